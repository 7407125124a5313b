"""A package that adds a part of every kind, as another distribution would: a file each, and an entry point each."""
