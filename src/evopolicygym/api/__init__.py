"""What a Python program calls: playing runs, loading them, comparing them. The command line stands on it.

The names are exported by ``evopolicygym`` itself.
"""
