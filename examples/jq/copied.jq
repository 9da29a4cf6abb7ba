# How many bytes went which way, and how fast? A rate means something for calls that wait for the copy.
[inputs | select(.type == "call" and .family == "transfer" and .status == "ok" and .direction and .bytes)]
| group_by(.direction)
| map({direction: .[0].direction, copies: length, bytes: (map(.bytes) | add),
       waited: (map(select(.func | test("Async") | not)))})
| map({direction, copies, bytes,
       bytes_per_us: (if .waited == [] then null
                      else (.waited | map(.bytes) | add) * 1000 / (.waited | map(.duration_ns) | add) | floor end)})
| sort_by(.direction)[]
