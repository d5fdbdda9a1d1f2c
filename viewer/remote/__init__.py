"""Places where programs run and recordings lie: another machine, a Slurm cluster, a container, a pod."""
