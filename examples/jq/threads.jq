# Which threads make the calls?
[inputs | select(.type == "call")]
| group_by([.pid, .tid])
| map({pid: .[0].pid, tid: .[0].tid, name: (.[0].thread // .[0].comm), calls: length, total_ns: (map(.duration_ns) | add)})
| sort_by(-.calls, .pid, .tid)[]
