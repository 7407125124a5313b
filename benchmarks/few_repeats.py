"""What few repeats can show at best: figures that follow from formulas alone, without any run.

python benchmarks/few_repeats.py
"""

import math

from evopolicygym.analysis.ranking.bootstrap import share_interval
from evopolicygym.analysis.ranking.decision import LEVEL, separation_chance
from evopolicygym.analysis.ranking.pairing import improvement_interval

REPEATS = (2, 3, 4, 5, 10)
CHANCES = (0.1, 0.2, 0.5)


def main() -> None:
    """Print what is known by number of repeats, then how many repeats a rare failure takes."""
    print(
        "| repeats of each | least p on a task | improvement, one task | sixteen tasks | failing runs not excluded, % |"
    )
    print("|---|---|---|---|---|")
    for repeats in REPEATS:
        one, sixteen = (improvement_interval(1.0, [(repeats, repeats)] * tasks) for tasks in (1, 16))
        lows = " | ".join("-" if found is None else f"{found.low:.2f} to {found.high:.0f}" for found in (one, sixteen))
        failing = 100 * share_interval(0.0, repeats).high
        print(f"| {repeats} | {separation_chance(repeats, repeats):.3f} | {lows} | {failing:.0f} |")
    print("\n| a run fails with, % | 3 repeats show one, % | 5 repeats, % | repeats that show one with 95 % |")
    print("|---|---|---|---|")
    for chance in CHANCES:
        seen = " | ".join(f"{100 * (1 - (1 - chance) ** repeats):.0f}" for repeats in (3, 5))
        print(f"| {100 * chance:.0f} | {seen} | {math.ceil(math.log(LEVEL) / math.log(1 - chance))} |")


if __name__ == "__main__":
    main()
