# How many calls came in each second, and how many of them failed?
reduce (inputs | select(.type == "call")) as $c ({};
  .[$c.ts[:19]] |= {calls: (.calls + 1), errors: (.errors + if $c.status == "error" then 1 else 0 end)})
| to_entries | sort_by(.key)[] | {second: .key, calls: .value.calls, errors: .value.errors}
