"""The version of this package, read by the build too; it imports nothing, so that every module may import it.

The versions of what a score depends on are in ``records/``; the protocol's is in ``core/``.
"""

__version__ = "0.2.0"
