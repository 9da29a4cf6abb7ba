# Which processes used CUDA, and how did they end?
inputs | select(.type == "process" and .phase != "start")
| {pid, comm, exe, phase, exit_code, signal, calls: .total.calls, errors: .total.errors,
   bytes: ([.total.bytes[]] | add // 0)}
