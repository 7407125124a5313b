"""Reports: all tables and figures of some runs in one directory, with an index; docs/use/report.md describes it."""
