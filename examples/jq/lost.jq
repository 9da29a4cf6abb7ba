# Is anything missing from this stream? Nothing is printed when all is there.
inputs
| if .type == "loss" then {at: .ts, where: (.sink // .source), reason, count}
  elif .type == "stop" then
    (.calls | .lost | to_entries[] | select(.value > 0) | {where: "capture", reason: .key, count: .value}),
    (.sinks | to_entries[] | .key as $sink | .value.dropped | to_entries[]
     | {where: $sink, reason: .key, count: .value})
  else empty end
