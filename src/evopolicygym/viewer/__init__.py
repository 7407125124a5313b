"""The run viewer: pages that show runs, from their records alone.

``documents/`` makes what a page shows as JSON documents; ``site/`` serves them on this machine; ``static/`` is the
pages' own code and style. Nothing here plays, writes into a run, or runs anything of an agent's.
"""
