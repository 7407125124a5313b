"""The run viewer: pages that show runs from their records.

``documents/`` builds the JSON documents of the pages, ``site/`` serves them or writes them as files, and ``static/``
contains the pages' code and style. The viewer never plays, writes into a run, or executes an agent's code.
"""
