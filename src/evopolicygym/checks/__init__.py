"""Checks for authors of extensions: ``environment``, ``sandbox``, ``executor``, ``agent``, ``pack``.

Each of the four has ``check(name, …)``, which yields a ``core.finding.Finding`` after another. What they stand on lies
in the folders beside them, and ``attacks/`` holds hostile policies only.
"""
