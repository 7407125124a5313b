"""Films of recorded episodes, rendered and encoded in separate processes."""
