# How much of the time in CUDA calls did each process spend waiting?
reduce (inputs | select(.type == "call")) as $c ({};
  .["\($c.pid)"] |= {comm: $c.comm, all: (.all + $c.duration_ns),
                     sync: (.sync + if $c.family == "sync" then $c.duration_ns else 0 end)})
| to_entries
| map({pid: (.key | tonumber), comm: .value.comm, sync_ns: .value.sync,
       percent: (1000 * .value.sync / .value.all | round / 10)})
| sort_by(.pid)[]
