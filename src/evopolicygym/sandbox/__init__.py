"""Where untrusted code runs: one backend a file, each against the contract of ``base``."""
