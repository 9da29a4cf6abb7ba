# What did a thread do just before a call of it failed? The three calls before each failure.
foreach (inputs | select(.type == "call")) as $c ({last: {}};
  "\($c.tid)" as $tid
  | .out = (if $c.status == "error" then {failed: $c.func, error: $c.error, seq: $c.seq, before: (.last[$tid] // [])}
            else null end)
  | .last[$tid] = ((.last[$tid] // []) + [$c.func])[-3:];
  .out | select(.))
