"""Lists the contents of a pack's Python: ``python -m evopolicygym.packs.contents MODULE …``.

The program imports the modules that register the pack's environments, so that an import error is found at installation,
and prints the versions of ``python`` and of all distributions as a JSON object in its last line.
"""

import importlib
import json
import platform
import sys
import warnings
from importlib.metadata import distributions

PYTHON = "python"


def main(modules: list[str]) -> None:
    """Import the modules and print the versions."""
    warnings.simplefilter("ignore")
    for module in modules:
        importlib.import_module(module)
    versions = {found.metadata["Name"]: found.version for found in distributions()}
    sys.stdout.write(f"\n{json.dumps({**versions, PYTHON: platform.python_version()})}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
