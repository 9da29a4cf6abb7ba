# How large are allocations? Counted by powers of two: up to 1 KiB, 2 KiB, 4 KiB ...
def up: . as $n | 1024 | until(. >= $n; . * 2);
reduce (inputs | select(.type == "call" and .family == "memory" and .status == "ok" and .bytes)) as $c ({};
  .[$c.bytes | up | tostring] += 1)
| to_entries | map({up_to: (.key | tonumber), allocations: .value}) | sort_by(.up_to)[]
