"""How often an edit that gains nothing on average is a *real gain*, by shape of the differences and number of cases.

    python benchmarks/real_gains.py [--edits 2000]

Differences between two policies are drawn on each validation case; their true mean is 0. Some edits help on most cases
and ruin the others. The rule is that of ``evopolicygym diagnose`` (``analysis/lineage/lineage.py``).
"""

import argparse
from collections.abc import Callable

import numpy as np

from evopolicygym.analysis.lineage.lineage import gain

CASES = (8, 16, 32)
Shape = Callable[[np.random.Generator, int], np.ndarray]


def ruins(share: float) -> Shape:
    """Return differences of an edit that ruins a share of cases and helps on the others as much in all."""

    def draw(random: np.random.Generator, count: int) -> np.ndarray:
        ruined = random.random(count) < share
        return np.where(ruined, -1.0, share / (1 - share)) + 0.01 * random.normal(size=count)

    return draw


SHAPES: dict[str, Shape] = {
    "normal": lambda random, count: random.normal(size=count),
    "heavy tails": lambda random, count: random.standard_t(3, size=count),
    "long tail below": lambda random, count: 1.0 - random.exponential(size=count),
    "ruins a fifth": ruins(0.2),
    "ruins a tenth": ruins(0.1),
}


def share_of_real_gains(shape: Shape, cases: int, edits: int, seed: int) -> float:
    """Return the share of edits without an effect that are real gains."""
    random = np.random.default_rng(seed)
    found = (gain([0.0] * cases, shape(random, cases).tolist()) for _ in range(edits))
    return float(np.mean([one is not None and one.is_real for one in found]))


def main() -> None:
    """Print a row for each shape."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--edits", type=int, default=2000, help="edits behind each figure")
    edits = parser.parse_args().edits
    print(f"| differences | {' | '.join(f'{cases} cases, % ± s.e.' for cases in CASES)} |")
    print("|---" * (1 + len(CASES)) + "|")
    for at, (name, shape) in enumerate(SHAPES.items()):
        shares = [share_of_real_gains(shape, cases, edits, 100 * at + cases) for cases in CASES]
        shown = (f"{100 * share:.1f} ± {100 * (share * (1 - share) / edits) ** 0.5:.1f}" for share in shares)
        print(f"| {name} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main()
