# What runs on which stream? Work on the default stream (0x0) waits for all the others.
[inputs | select(.type == "call" and .stream and (.family == "launch" or .family == "transfer"))]
| group_by([.pid, .stream])
| map({pid: .[0].pid, stream: .[0].stream, launches: (map(select(.family == "launch")) | length),
       transfers: (map(select(.family == "transfer")) | length)})
| sort_by(.pid, .stream)[]
