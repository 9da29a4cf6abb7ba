# Which kernels were launched, how often, and how large?
[inputs | select(.type == "call" and .family == "launch" and .kernel)]
| group_by(.kernel)
| map({kernel: .[0].kernel, launches: length,
       threads: (map((.grid[0] * .grid[1] * .grid[2]) * (.block[0] * .block[1] * .block[2])) | add)})
| sort_by(-.launches, .kernel)[]
