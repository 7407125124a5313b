"""Plays records again as other processors would, and prints which play the same bits.

    python benchmarks/replay_matrix.py RUN… [--cases 4] [--python PYTHON]…

A stand-in for a processor is a set of environment variables by which libraries compute as they do there. Each record
is played under each of them by each Python that is named (an environment with this package; by default this one), the
first so many of its held-out cases. A cell says ``same`` where every trajectory is the recorded one bit for bit, else
the largest difference of a return, with what a replay calls it. Exit code 1 where any is more than rounding.
"""

import argparse
import json
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

STAND_INS = {
    "this processor": {},
    "Nehalem": {"OPENBLAS_CORETYPE": "Nehalem", "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR"},
    "Haswell": {"OPENBLAS_CORETYPE": "Haswell", "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR"},
    "without FMA": {"OPENBLAS_CORETYPE": "Sandybridge", "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4"},
    "SkylakeX": {"OPENBLAS_CORETYPE": "SkylakeX", "NPY_DISABLE_CPU_FEATURES": "AVX512_ICL AVX512_SPR"},
}


def main() -> int:
    """Play the matrix; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--cases", type=int, default=4)
    parser.add_argument("--python", action="append", help="an interpreter that has this package")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(_played(asked.runs[0], asked.cases)))
        return 0
    from evopolicygym.records.reader import expand_runs

    runs = expand_runs(asked.runs)
    verdicts = [_row(run, python, asked.cases) for run in runs for python in asked.python or [sys.executable]]
    return int(any("different" in row for row in verdicts))


def _row(run: Path, python: str, cases: int) -> set[str]:
    """Print how one record plays by one Python under every stand-in; return the verdicts."""
    cells = {}
    for name, variables in STAND_INS.items():
        line = [python, __file__, str(run), "--one", "--cases", str(cases)]
        done = subprocess.run(line, env={**os.environ, **variables}, capture_output=True, check=False, encoding="utf-8")
        if done.returncode:
            cells[name] = {"verdict": "different", "most": done.stderr.strip().rpartition("\n")[2], "python": python}
        else:
            cells[name] = json.loads(done.stdout)
    version = next(iter(cells.values()))["python"]
    told = (f"{name}: {one['verdict']}{_by(one)}" for name, one in cells.items())
    print(f"{run.parent.name} by Python {version}: {'; '.join(told)}", flush=True)
    return {one["verdict"] for one in cells.values()}


def _by(cell: dict[str, str]) -> str:
    return "" if cell["verdict"] == "same" else f" ({cell['most']})"


def _played(run: Path, cases: int) -> dict[str, str]:
    """Play the first cases of a record that come, on one worker; return the verdict and the largest difference."""
    from evopolicygym.runs.replay import ReplayOptions, compare_replay, replay

    again = replay(run, ReplayOptions(1))
    played = list(islice(again, cases))
    again.close()  # type: ignore[attr-defined] # it is a generator, whose executor is closed with it
    most = max(abs(one.difference) for one in played)
    return {"verdict": compare_replay(played)[0].value, "most": f"{most:.3g}", "python": sys.version.split()[0]}


if __name__ == "__main__":
    sys.exit(main())
