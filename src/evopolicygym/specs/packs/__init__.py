"""Packs: a TOML file each, read by ``specs/pack_catalog.py``."""
