"""The archive: the one room that knows a run directory. Both wings meet here and nowhere else."""
