"""Which contract this is."""

PROTOCOL_VERSION = "1.0"
"""Of ``docs/reference/protocol.md``: the first number changes when an agent written before would break."""
