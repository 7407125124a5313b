"""The check of a sandbox: hostile policies attack an isolation backend, whose guarantees must hold.

``attack_suite.py`` plays the attacks, ``channel_search/`` searches for channels between policies.
"""

from collections.abc import Callable, Iterator, Sequence

from evopolicygym.checks.attack_suite import ENVIRONMENT, Attack, AttackVerdict, run_attacks
from evopolicygym.checks.channel_search.across import search_across
from evopolicygym.checks.channel_search.search import search
from evopolicygym.core.finding import Finding
from evopolicygym.sandbox.base import Guarantee
from evopolicygym.sandbox.levels import choose
from evopolicygym.specs import catalog

FAULTS_SHOWN = 3
"""Most problems in one line."""


def check(name: str, attacks: Sequence[Attack] = ()) -> Iterator[Finding]:
    """Play the attacks (all, where none is given) against the backend of a name; yield what came of each as it ends.

    Raises ``SandboxError`` where the backend can't work here.
    """
    for verdict in run_attacks(name, catalog.load(ENVIRONMENT), attacks):
        yield Finding(
            verdict.attack.id,
            ok=not verdict.broken,
            detail=_happened(verdict),
            title=verdict.attack.name,
            verdict=_word(verdict),
            promised=verdict.promised,
            more={"attack": verdict.attack.name, "promised": verdict.promised, "held": verdict.held},
        )


def check_channels(name: str, progress: Callable[[str], None] = lambda _what: None) -> Iterator[Finding]:
    """Search the backend of a name for channels between policies; ``progress`` is given each step in words.

    Raises ``SandboxError`` where the backend can't work here, or filters no system calls.
    """
    found = search(name, catalog.load(ENVIRONMENT), progress)
    calls = {call.partition("#")[0] for call in found.calls}
    unsteady = ", ".join(sorted(found.unsteady))
    none_found = "nothing that one policy did was found by another"
    yield Finding("tried", ok=bool(calls), detail=f"{len(calls)} system calls in {len(found.calls)} ways")
    yield Finding("steady", ok=not unsteady, detail=unsteady or "what is asked twice is answered alike")
    yield Finding("channels", ok=not found.channels, detail="marks were found" if found.channels else none_found)
    for channel in found.channels:
        yield Finding(
            channel.found_by, ok=False, detail=f"after {', '.join(channel.written_by)}{' at once' * channel.at_once}"
        )
    if Guarantee.FILES_PRIVATE not in choose(name).backend.guarantees:
        return
    for carried in search_across(name, catalog.load(ENVIRONMENT), progress=progress):
        yield Finding(
            f"{carried.carrier}, {carried.sender} to {carried.reader}",
            ok=not carried.is_channel,
            detail=(
                f"{carried.read_right:.0%} of the bits read right, {carried.guessed_right:.0%} where nothing was sent: "
                f"{carried.bits_a_second:.0f} bits a second"
            ),
        )


def _word(verdict: AttackVerdict) -> str:
    if verdict.broken:
        return "NOT HELD"
    if verdict.promised:
        return "held"
    return "not promised" if verdict.outcome else "not tried"


def _happened(verdict: AttackVerdict) -> str:
    """Return in a line what came of an attack: what is wrong with it, or else how its episodes ended."""
    outcome, faults = verdict.outcome, verdict.faults
    if outcome is None:
        return "nothing would keep it off this machine"
    if len(faults) > FAULTS_SHOWN:
        faults = (*faults[:FAULTS_SHOWN], f"and {len(faults) - FAULTS_SHOWN} more")
    endings = [f"{outcome.endings.count(end)} {end}" for end in dict.fromkeys(outcome.endings)]
    return "; ".join(faults) or ", ".join(endings) or outcome.status
