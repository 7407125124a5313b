"""One file for each tracker; its name is the tracker's."""
