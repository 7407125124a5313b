"""Plays a reference policy on train cases of the public split and prints its mean return with the standard error.

    python benchmarks/play_reference.py bipedal_walker --first 880 --cases 144

Policies are played in this process, without a sandbox, as by ``tune_reference.py``.
"""

import argparse
import math
import statistics

from evopolicygym.core.cases import PUBLIC_KEY, Split, derive
from tune_reference import episode_return


def main() -> None:
    """Play, and print every return and their mean."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="an environment that has a reference policy")
    parser.add_argument("--first", type=int, default=0, help="index of the first train case")
    parser.add_argument("--cases", type=int, default=16, help="how many, two at least")
    options = parser.parse_args()
    seeds = derive(PUBLIC_KEY, options.name).seeds[Split.TRAIN][options.first : options.first + options.cases]
    returns = []
    for index, seed in enumerate(seeds, options.first):
        returns.append(episode_return(options.name, None, seed, None))
        print(f"case {index}: {returns[-1]:.4f}", flush=True)
    error = statistics.stdev(returns) / math.sqrt(len(returns))
    print(f"{options.name}: {statistics.mean(returns):.4f} ± {error:.4f} over {len(returns)} cases")


if __name__ == "__main__":
    main()
