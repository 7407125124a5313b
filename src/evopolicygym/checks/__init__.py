"""What an outsider runs on a thing of their own: ``environment``, ``sandbox``, ``executor``, ``agent``.

Each of the four has ``check(name, …)``, which yields a ``core.finding.Finding`` after another. What they stand on lies
in the folders beside them, and ``attacks/`` holds hostile policies only.
"""
