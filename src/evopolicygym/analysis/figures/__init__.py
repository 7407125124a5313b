"""Figures: what was found in runs, drawn; a file each, found by name. docs/report.md shows them."""
