# Which copies are so small (up to 64 KiB) that their call costs more than their bytes? Candidates for batching.
[inputs | select(.type == "call" and .family == "transfer" and .direction and .bytes and .bytes <= 65536)]
| group_by([.pid, .func, .direction])
| map({pid: .[0].pid, func: .[0].func, direction: .[0].direction, copies: length, bytes: (map(.bytes) | add)})
| sort_by(-.copies, .pid, .func, .direction)[]
