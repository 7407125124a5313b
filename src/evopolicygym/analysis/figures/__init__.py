"""Figures: what was found in runs, drawn; a file each, found by name. docs/use/report.md shows them."""
