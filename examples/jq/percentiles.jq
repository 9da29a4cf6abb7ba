# How long do calls take: half of them, 99 of 100, the longest? By function.
def quantile($q): .[((length - 1) * $q | floor)];
[inputs | select(.type == "call")]
| group_by(.func)
| map((map(.duration_ns) | sort) as $d
      | {func: .[0].func, calls: length, p50_ns: ($d | quantile(0.5)), p99_ns: ($d | quantile(0.99)), max_ns: $d[-1]})
| sort_by(-.p99_ns, .func)[]
