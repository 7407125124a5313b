"""The check of one task of a pack: played for some seconds in a sandbox without a network, on the pack's Python."""
