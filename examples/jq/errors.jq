# Which functions failed, how, and how often?
[inputs | select(.type == "call" and .status == "error")]
| group_by([.func, .error])
| map({func: .[0].func, error: .[0].error, message: .[0].error_message, count: length})
| sort_by(-.count, .func, .error)[]
