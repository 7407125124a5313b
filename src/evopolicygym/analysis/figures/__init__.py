"""The figures of a report, a file each, found by name. ``docs/use/report.md`` shows them."""
