"""What knobs do: level means, paired differences between levels, with intervals and adjusted p-values."""
