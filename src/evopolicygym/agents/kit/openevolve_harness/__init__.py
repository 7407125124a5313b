"""The process in which the agent ``openevolve`` has its library: ``__main__`` sets it up, ``link`` is its one way out.

Nothing of a run is known in here: what is asked goes to ``agents/builtin/openevolve.py``, which answers.
"""
