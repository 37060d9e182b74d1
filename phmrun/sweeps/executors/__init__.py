"""Where runs are carried out: on this machine, on a SLURM or a Ray cluster."""
