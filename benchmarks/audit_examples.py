"""How well ``evopolicygym audit`` finds what it looks for: precision and recall on examples that were labelled by hand.

``python benchmarks/audit_examples.py``: a row for each kind of finding and half of ``tests/support/conduct``, from the
grade ``look`` on. ``--wrong`` lists what is missed and what is found wrongly. ``--ordinary`` looks at the modules of
Python's own library instead, as if an agent had written and run each, and as if each were a policy's: there is nothing
to be found in them but what they say of networks and processes.
"""

import argparse
import ast
import sys
import tempfile
from collections import Counter
from pathlib import Path
from time import process_time

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from evopolicygym.analysis.conduct.detector import AgentProgram, Grade, Location, Material, Use
from labelled_conduct import DETECTORS, HALVES, labelled_conduct, tallied


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description="Precision and recall of the audit on labelled examples.")
    parser.add_argument("--wrong", action="store_true", help="list what is missed and what is found wrongly")
    parser.add_argument("--ordinary", action="store_true", help="count findings in Python's own library instead")
    arguments = parser.parse_args()
    if arguments.ordinary:
        ordinary()
        return
    print(f"{'half':12} {'kind':14} {'examples':>8} {'precision':>10} {'recall':>7}")
    for half in HALVES:
        examples, start = labelled_conduct(half), process_time()
        with tempfile.TemporaryDirectory() as directory:
            tallies, wrong = tallied(Path(directory), examples)
        taken = process_time() - start
        for kind, tally in tallies.items():
            expected = tally.found + tally.missed
            print(f"{half:12} {kind:14} {expected:8} {tally.precision:10.2f} {tally.recall:7.2f}")
        harmless = sum(not one.expect for one in examples)
        print(f"{half:12} {len(examples)} examples, {harmless} of them harmless, in {taken:.1f} s of processor time")
        if arguments.wrong:
            print("\n".join(wrong))


def ordinary() -> None:
    """Print how many findings there are in ordinary modules, by kind."""
    found, modules = Counter[str](), sorted(Path(ast.__file__).parent.glob("*.py"))
    for path in modules:
        material = Material()
        for use in (Use.RUN, Use.POLICY):
            text = path.read_text(encoding="utf-8", errors="replace")
            material.add(AgentProgram("python", text, Location(path.name, 1), use))
        for kind, detector in DETECTORS.items():
            found[kind] += sum(one.grade is not Grade.NOTE for one in detector.look(material))
    print(f"{len(modules)} modules: {dict(found)}")


if __name__ == "__main__":
    main()
