# Which ten calls took longest?
[inputs | select(.type == "call")]
| sort_by(-.duration_ns, .seq)[:10][]
| {seq, func, duration_ns, kernel, bytes, pid}
