"""``python -m evopolicygym``, which imports no module of the present directory but those that Python itself looks for.

``-m`` puts that directory before all others, and it may be an agent's workspace or a record from elsewhere. It is taken
off again before anything else is imported; ``python -P`` never puts it there, and ``PYTHONPATH=.`` keeps it.
"""

import os
import sys

if not sys.flags.safe_path and sys.path[:1] in ([""], [os.getcwd()]):  # noqa: PTH109 - pathlib is not imported yet
    del sys.path[0]

from evopolicygym.cli.start import main

if __name__ == "__main__":
    main()
