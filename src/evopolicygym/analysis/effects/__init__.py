"""The effects of knobs: level means, paired differences between levels, with intervals and adjusted p-values."""
