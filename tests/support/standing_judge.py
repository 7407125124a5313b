"""A judge in a process of its own: ``python standing_judge.py DIRECTORY`` prints its address and stays until told.

No submission can be so small that its budget allows it, so that whatever is asked, nothing may ever be charged.
"""

import sys
from pathlib import Path

from evopolicygym.core.task import BudgetRule
from fakes import open_run

BUDGET = BudgetRule(1000, 900)

if __name__ == "__main__":
    with open_run(Path(sys.argv[1]), {"budget": BUDGET}) as run:
        print(run.door.address.base_url, flush=True)
        sys.stdin.read()
