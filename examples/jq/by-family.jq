# Where does the time go: memory, transfers, launches, waiting?
reduce (inputs | select(.type == "call")) as $c ({}; .[$c.family] += $c.duration_ns)
| to_entries | sort_by(-.value, .key)
| (map(.value) | add) as $all
| .[] | {family: .key, total_ns: .value, percent: (1000 * .value / $all | round / 10)}
