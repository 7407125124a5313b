"""The model proxy: the one way from an agent's sandbox to the model it works with.

``proxy`` serves it and ``upstream`` says where it leads. ``call`` knows which requests there are, ``inspection`` what
may stand in one, ``forward`` asks the model server, ``meter`` counts tokens, ``log`` keeps a line a request.
"""
