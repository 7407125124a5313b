"""What an agent's program is on the host, and what it reads of the kernel's files (A25)."""

import os

import pytest

from enclosed import needs_bubblewrap, python
from fakes import RunMaker

pytestmark = needs_bubblewrap

LOOK = """
import json, os
found = {"users": open("/proc/self/uid_map").read().split(), "entries": [], "read": [], "own": []}
for name in os.listdir("/proc"):
    place = os.path.join("/proc", name)
    if name.isdigit():
        found["own"].append(int(name))
    elif os.path.isdir(place) and not os.path.islink(place):
        found["entries"] += [os.path.join(place, below) for below in os.listdir(place)]
    elif not os.path.islink(place):
        try:
            text = open(place, "rb").read(4096).decode("latin-1")
        except OSError:
            continue
        found["read"].append([name, text])
print(json.dumps(found))
"""
MEASURED = (
    "interrupts", "softirqs", "slabinfo", "kallsyms", "vmallocinfo", "kmsg", "kpagecount", "buddyinfo", "locks",
    "diskstats", "keys", "timer_list", "zoneinfo", "vmstat", "key-users", "sched_debug", "config.gz",
)  # fmt: skip


def test_nothing_of_the_machine_in_proc(new_run: RunMaker) -> None:
    """A25: /proc holds a program's own processes; what is about the machine is empty or at rest, for root's too."""
    found = python(new_run(), LOOK)
    texts = dict(found["read"])

    assert found["entries"] == []
    assert {name: text for name, text in texts.items() if text and name in MEASURED} == {}
    assert texts["cpuinfo"].count("processor\t:") == len(os.sched_getaffinity(0))
    assert texts["loadavg"].startswith("0.00 0.00 0.00")
    assert len(found["own"]) <= 3


@pytest.mark.skipif(os.geteuid() != 0, reason="only root could give root's rights away")
def test_a_program_is_never_root(new_run: RunMaker) -> None:
    """A25: on the host the user of a sandboxed program is never root, whoever the judge is."""
    found = python(new_run(), LOOK)
    inside, outside, count = found["users"][:3]

    assert (inside, count) == ("1000", "1")
    assert outside != "0"


def test_each_run_has_a_user_of_its_own(new_run: RunMaker) -> None:
    """A25: where the judge is root, programs of two runs are two users, so that nothing counts them together."""
    users = {python(new_run(name), LOOK)["users"][1] for name in ("first", "second")}

    assert len(users) == (1 if os.geteuid() else 2)
