# How much memory did each process hold at most, as far as its own allocations say?
reduce (inputs | select(.type == "call" and .status == "ok" and .ptr and .family == "memory")) as $c ({};
  ($c.pid | tostring) as $pid
  | if ($c.func | test("Free|Unregister")) then
      .[$pid].live -= (.[$pid].held[$c.ptr] // 0) | del(.[$pid].held[$c.ptr])
    elif $c.bytes then
      .[$pid].live += $c.bytes | .[$pid].held[$c.ptr] = $c.bytes
      | .[$pid].peak = ([.[$pid].peak, .[$pid].live] | max)
    else . end)
| to_entries | map({pid: (.key | tonumber), peak_bytes: .value.peak, left_bytes: .value.live}) | sort_by(.pid)[]
