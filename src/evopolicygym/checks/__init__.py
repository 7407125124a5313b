"""Checks for authors of extensions: ``environment``, ``sandbox``, ``executor``, ``agent``, ``pack``.

Each module has ``check(name, …)``, which yields findings. ``attacks/`` contains hostile policies only.
"""
