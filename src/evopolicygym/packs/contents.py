"""Lists the contents of a pack's Python: ``python -m evopolicygym.packs.contents MODULE …``.

The program imports the modules that register the pack's environments, so that an import error is found at installation,
and prints the versions of all distributions as a JSON object in its last line.
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
    sys.stdout.write(f"\n{json.dumps({found.metadata['Name']: found.version for found in distributions()})}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
