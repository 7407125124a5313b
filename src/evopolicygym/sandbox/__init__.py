"""Where strangers run: one backend a file, each against the contract of ``base``."""
