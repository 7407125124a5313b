"""What a pack's Python holds: a program that runs there, ``python -m evopolicygym.packs.contents MODULE …``.

Imports the modules that register the pack's environments, so that one that can't be imported is seen when the pack is
installed, and prints as its last line a JSON object of the versions of all distributions.
"""

import importlib
import json
import sys
import warnings
from importlib.metadata import distributions


def main(modules: list[str]) -> None:
    """Import the modules and print the versions."""
    warnings.simplefilter("ignore")
    for module in modules:
        importlib.import_module(module)
    sys.stdout.write(f"\n{json.dumps({one.metadata['Name']: one.version for one in distributions()})}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
