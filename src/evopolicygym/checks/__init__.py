"""Parts that users write: packages to begin with (``new_package``), and a check of each kind.

Each check is a module with ``check(name, …)``, which yields findings. ``attacks/`` contains hostile policies only.
"""

KINDS = ("environment", "agent", "sandbox", "executor", "tracker", "exporter", "figure", "diagnostic")
"""The kinds of parts that ``new`` writes and ``check`` checks."""
