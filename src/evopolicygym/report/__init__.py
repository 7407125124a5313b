"""Reports: all tables and figures of runs in one directory, with an index."""
