# How often was each function called, and how much time went into it?
reduce (inputs | select(.type == "call")) as $c ({};
  .[$c.func] |= {calls: (.calls + 1), total_ns: (.total_ns + $c.duration_ns)})
| to_entries
| map({func: .key, calls: .value.calls, total_ns: .value.total_ns, mean_ns: (.value.total_ns / .value.calls | floor)})
| sort_by(-.total_ns, .func)[]
