"""The tables of runs as files for other programs. Must not import execution packages."""
