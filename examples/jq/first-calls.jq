# What did the first call of each process cost? It creates the context.
reduce (inputs | select(.type == "call")) as $c ({};
  "\($c.pid)" as $pid | if .[$pid] == null or $c.ts < .[$pid].ts then .[$pid] = $c else . end)
| [.[]] | sort_by(.ts, .seq)[] | {pid, comm, ts, func, duration_ns}
