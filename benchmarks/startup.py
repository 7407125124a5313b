"""How long the program and the package take to start, beside their limits: ``python benchmarks/startup.py``.

Processor time of whole processes, each started ``TIMES`` times in turn; medians, and ratios of them.
"""

import resource
import subprocess
import sys
from pathlib import Path
from statistics import median

TIMES = 15
LISTING_S = 0.5
"""Seconds within which all tasks of packs, and all environments, are listed."""
PROGRAM = str(Path(sys.executable).with_name("evopolicygym"))
COMMANDS = {
    "import typer, rich": [sys.executable, "-c", "import typer, rich"],
    "evopolicygym --help": [PROGRAM, "--help"],
    "evopolicygym packs": [PROGRAM, "packs"],
    "evopolicygym environments": [PROGRAM, "environments"],
    "import gymnasium": [sys.executable, "-c", "import gymnasium"],
    "import evopolicygym": [sys.executable, "-c", "import evopolicygym"],
    "Python alone": [sys.executable, "-c", "pass"],
}


def seconds(command: list[str]) -> float:
    """Return the processor time of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print the medians and what is promised."""
    found: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(TIMES):
        for name, command in COMMANDS.items():
            found[name].append(seconds(command))
    took = {name: median(times) for name, times in found.items()}
    for name, time in took.items():
        print(f"{name:<25} {time * 1000:6.0f} ms")
    for listing in ("packs", "environments"):
        ours = took[f"evopolicygym {listing}"]
        print(f"evopolicygym {listing} takes {ours:.2f} s (promised: below {LISTING_S:g})")
    alone = took["Python alone"]
    helped = took["evopolicygym --help"] / took["import typer, rich"]
    imported = max(0.0, took["import evopolicygym"] - alone) / (took["import gymnasium"] - alone)
    print(f"--help takes {helped:.2f} of import typer, rich (promised: at most 1.25)")
    print(
        f"import evopolicygym takes {imported:.3f} of import gymnasium, Python's own start aside (promised: below 0.1)"
    )


if __name__ == "__main__":
    main()
