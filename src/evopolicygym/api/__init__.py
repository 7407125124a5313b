"""The Python API, on which the command line is built. ``evopolicygym`` exports its names.

``api/play/`` plays runs; ``api/read/`` reads runs that were played, and imports nothing that plays.
"""
