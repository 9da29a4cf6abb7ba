# Which job and rank do calls and failures belong to? With `fields: {env: [SLURM_JOB_ID, RANK]}`.
[inputs | select(.type == "call")]
| group_by([.environ.SLURM_JOB_ID, .environ.RANK])
| map({job: .[0].environ.SLURM_JOB_ID, rank: .[0].environ.RANK, calls: length,
       errors: (map(select(.status == "error")) | length)})[]
