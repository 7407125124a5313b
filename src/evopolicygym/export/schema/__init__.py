"""The tables that are exported: their columns and their values."""
