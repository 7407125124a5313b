"""The process in which the library OpenEvolve runs: ``__main__`` configures it, ``link`` connects it to the agent.

It knows nothing of the run; ``agents/builtin/openevolve.py`` answers its requests.
"""
