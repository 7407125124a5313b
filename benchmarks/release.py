"""Build the wheel and the source distribution, and try the wheel in a fresh environment of each Python.

``python benchmarks/release.py [PYTHON…]``, or ``make release-check``; default: its own Python. Each environment
gets the wheel alone, without extras and outside of the checkout, and runs the commands of a new user. It prints sizes
and seconds as a table, and exits with 1 if a command fails. It needs a package index.
"""

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
MB = 1_000_000
COMMANDS = (
    ("version", ["--version"]),
    ("environments", ["environments", "--json"]),
    ("agents", ["agents", "--json"]),
    ("run cartpole", ["run", "cartpole", "--budget", "8", "--validation", "2", "--held-out", "4", "--json"]),
    ("show", ["show", "latest"]),
    ("verify", ["verify", "latest"]),
    ("leaderboard", ["leaderboard", "--tables", "paper,references", "--format", "markdown"]),
    ("check environment", ["check", "environment", "pendulum"]),
    ("draft of an environment", ["environments", "add", "CartPole-v1", "-o", "mine.toml"]),
    ("report", ["report", "latest", "--no-figures", "-o", "report"]),
)
"""What a new user types, without extras."""
WITHOUT_EXTRAS = ["run", "reacher", "--budget", "1"]
"""What needs an extra; it must say so and leave no run."""


def build(target: str, directory: Path) -> Path:
    """Build the wheel or the source distribution; return its path."""
    line = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(directory)]
    subprocess.run(line, cwd=ROOT, check=True, stdout=sys.stderr)
    (built,) = directory.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return built


def try_wheel(python: str, wheel: Path, directory: Path) -> Iterator[tuple[str, float, str]]:
    """Install a wheel for a Python and run the commands: yield each with its seconds, and what went wrong."""
    home = directory / "home"
    home.mkdir(parents=True)
    kept = {name: os.environ[name] for name in os.environ if not name.startswith(("PYTHON", "VIRTUAL_ENV", "XDG_"))}
    bin_directory = directory / "environment" / "bin"
    environment = {**kept, "HOME": str(home), "PATH": f"{bin_directory}{os.pathsep}{os.environ['PATH']}"}

    def run(line: Sequence[str], code: int = 0) -> tuple[float, str]:
        began = time.monotonic()
        done = subprocess.run(line, cwd=home, env=environment, capture_output=True, text=True, check=False)
        wrong = "" if done.returncode == code else f"exit code {done.returncode}: {done.stderr[-800:]}"
        return time.monotonic() - began, wrong

    yield "environment", *run([python, "-m", "venv", str(directory / "environment")])
    pip = [str(bin_directory / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pins = ["-c", str(ROOT / "constraints.txt")]
    yield "installation", *run([*pip, *pins, str(wheel)])
    program = str(bin_directory / "evopolicygym")
    for name, words in COMMANDS:
        yield name, *run([program, *words])
    yield "extra named", *run([program, *WITHOUT_EXTRAS], 2)
    place = [str(bin_directory / "python"), "-c", "import evopolicygym; print(evopolicygym.__file__)"]
    found = subprocess.run(place, cwd=home, env=environment, capture_output=True, text=True, check=False).stdout
    yield "outside of the checkout", 0.0, "" if str(directory) in found else found


def installed_mb(directory: Path) -> float:
    """Return the size of an environment in MB."""
    return sum(file.lstat().st_size for file in directory.rglob("*") if file.is_file()) / MB


def main() -> int:
    """Print the sizes, and a table of seconds for each Python."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pythons", nargs="*", default=[sys.executable], metavar="PYTHON")
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    asked = parser.parse_args()
    failures = []
    seconds: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        wheel, source = (build(target, directory / target) for target in ("wheel", "sdist"))
        sizes = {"wheel": wheel.stat().st_size / MB, "source distribution": source.stat().st_size / MB}
        with zipfile.ZipFile(wheel) as archive, tarfile.open(source) as packed:
            files = {"wheel": len(archive.namelist()), "source distribution": len(packed.getnames())}
        for number, python in enumerate(asked.pythons):
            said = subprocess.run([python, "--version"], capture_output=True, text=True, check=True).stdout.strip()
            column = seconds.setdefault(said, {})
            for name, taken, wrong in try_wheel(python, wheel, directory / str(number)):
                column[name] = taken
                if wrong:
                    failures.append(f"{said}, {name}: {wrong}")
            sizes[f"{said} environment"] = installed_mb(directory / str(number) / "environment")
    if asked.json:
        print(json.dumps({"sizes_mb": sizes, "files": files, "seconds": seconds, "failures": failures}))
    else:
        for name, size in sizes.items():
            print(f"{name}: {size:.1f} MB{f', {files[name]} files' if name in files else ''}")
        print(f"\n| seconds | {' | '.join(seconds)} |\n|---|{'---:|' * len(seconds)}")
        for name in next(iter(seconds.values())):
            print(f"| {name} | {' | '.join(f'{column[name]:.1f}' for column in seconds.values())} |")
    sys.stderr.writelines(f"{failure}\n" for failure in failures)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
