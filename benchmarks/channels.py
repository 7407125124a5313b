"""Searches a sandbox backend for channels between policies: ``python benchmarks/channels.py [bubblewrap|process]``.

Takes minutes. Exit code 1 if marks were found. ``channel_search/`` says how it searches.
"""

import sys

from channel_search.across import search_across
from channel_search.search import search
from evopolicygym.checks.sandbox import ENVIRONMENT
from evopolicygym.sandbox.base import Guarantee
from evopolicygym.sandbox.levels import choose
from evopolicygym.specs import catalog


def main(name: str) -> int:
    """Print the channels of a backend, within a run and across runs; return the exit code."""
    result = search(name, catalog.load(ENVIRONMENT), print)
    calls = {call.partition("#")[0] for call in result.calls}
    print(f"{len(result.calls)} ways through the filter, of {len(calls)} calls")
    print(f"equal calls with unequal results: {', '.join(sorted(result.unsteady)) or 'none'}")
    for channel in result.channels:
        print(f"CHANNEL {channel.found_by}, after {', '.join(channel.written_by)}{' at once' * channel.at_once}")
    found = len(result.channels) + len(result.unsteady)
    if Guarantee.FILES_PRIVATE in choose(name).backend.guarantees:
        for trial in search_across(name, catalog.load(ENVIRONMENT), progress=print):
            found += trial.is_channel
            print(
                f"{'CHANNEL' if trial.is_channel else 'none'} {trial.carrier}, {trial.sender} to {trial.reader}: "
                f"{trial.accuracy:.0%} of the bits read right, {trial.noise_accuracy:.0%} where nothing was sent, "
                f"{trial.bits_per_second:.0f} bits a second"
            )
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2] or ["bubblewrap"]))
