"""The judge's client: the one place that knows the protocol's addresses, requests, answers and errors.

It needs the standard library alone (numpy for arrays), because every workspace has a copy of it beside ``./judge``. The
rest of the package imports it.
"""
