# What was allocated and never freed? By process and pointer, in the order of the allocations.
reduce (inputs | select(.type == "call" and .status == "ok" and .ptr and .family == "memory")) as $c ({};
  "\($c.pid) \($c.ptr)" as $key
  | if ($c.func | test("Free|Unregister")) then del(.[$key])
    elif $c.bytes then .[$key] = {pid: $c.pid, ptr: $c.ptr, bytes: $c.bytes, func: $c.func, seq: $c.seq}
    else . end)
| [.[]] | sort_by(.seq)[]
