"""Reports: all tables and figures of some runs in one directory, with an index; docs/report.md tells what is in it."""
