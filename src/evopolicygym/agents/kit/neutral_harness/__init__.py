"""The parts of the agent ``neutral``: what it has its model read, and the bash that it lends it.

``wires`` is the conversation in the two formats, ``provider`` asks the model server, ``hands`` runs commands in the
agent's workplace, ``prompt.md`` is the first message. The turn itself is not here but in ``agents/builtin/neutral.py``.
"""
