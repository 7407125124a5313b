"""Policies that are hardly Python, in a whole run: what they are is found out in the sandbox and never by the judge."""

import json
import os
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import Any

import httpx2

from asking import TLS
from evopolicygym.core.agent import AgentConfig, AgentEnd, JudgeEndpoint, Turn, Workspace
from fakes import PATIENCE_S
from players import GOOD, Player
from whole_runs import config, played

EPISODES = 1
IMPORT_ERROR, DIED = {"import_error"}, {"import_error", "init_error"}
"""What can't be compiled, and what may break the compiler itself."""
POLICIES: dict[str, tuple[bytes, set[str]]] = {
    "empty": (b"", {"missing_policy"}),
    "UTF-16": (GOOD.encode("utf-16"), IMPORT_ERROR),
    "NUL": (b"x = 1\0\n" + GOOD.encode(), IMPORT_ERROR),
    "no UTF-8": (b"x = '\xff\xfe'\n", IMPORT_ERROR),
    "an unknown coding": (b"# coding: nonsense\n" + GOOD.encode(), IMPORT_ERROR),
    "a coding that is none of text": (b"# coding: rot13\n" + GOOD.encode(), IMPORT_ERROR),
    "deep parentheses": (b"x = " + b"(" * 100_000 + b")" * 100_000, DIED),
    "deep signs": (b"x = " + b"-" * 100_000 + b"1", DIED),
    "deep attributes": (b"x = a" + b".a" * 100_000, DIED),
    "deep blocks": (b"".join(b" " * depth + b"if 1:\n" for depth in range(200)) + b" " * 200 + b"pass", IMPORT_ERROR),
    "much code": (b"a = 1\n" * 20_000 + b"raise ValueError", IMPORT_ERROR),
    "honest": (GOOD.encode(), {"ok"}),
}
CLIENT: dict[str, Any] = {"timeout": PATIENCE_S, "trust_env": False, "verify": TLS}
answers: dict[str, dict[str, Any]] = {}
beside: list[int] = []


def make_importer(_config: AgentConfig) -> Player:
    """Submit one policy after another, and ask for /info while each is played."""

    def play(desk: Workspace, door: JudgeEndpoint) -> Turn:
        for name, (policy, _) in POLICIES.items():
            (desk.system / "policy.py").write_bytes(policy)
            asking = Thread(target=_submit, args=(door.address.base_url, name))
            asking.start()
            beside.append(httpx2.get(f"{door.address.base_url}/info", **CLIENT).status_code)
            asking.join()
        return Turn(AgentEnd.FINISHED)

    return Player(play)


def _submit(base_url: str, name: str) -> None:
    body = json.dumps({"env_instances": list(range(EPISODES))})
    headers = {"Content-Type": "application/json"}
    answer = httpx2.post(f"{base_url}/submit", content=body, headers=headers, **CLIENT)
    answers[name] = answer.json()


def play(place: Path) -> None:
    """Play the run and print what came of it; for a process of its own, as an audit hook can't be taken out again."""
    compiled = []

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event == "compile" and "policy.py" in str(arguments[1:]):
            compiled.append(event)

    sys.addaudithook(watch)
    told = played(config(place, "test_attacks_import:make_importer", budget=EPISODES * len(POLICIES)))
    found = {
        "statuses": {name: answer["status"] for name, answer in answers.items()},
        "charged": [len(one.charged.env_instances) for one in told.state.submissions],
        "info": beside,
        "compiled": len(compiled),
        "selected": told.state.selected and told.state.selected.submit_index,
    }
    print(json.dumps(found))


def test_policies_that_are_hardly_python(tmp_path: Path) -> None:
    """Each is charged in full and ends as the protocol says; the judge compiles none and answers all the while."""
    program = "import sys, test_attacks_import as t; from pathlib import Path; t.play(Path(sys.argv[1]))"
    paths = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    statuses = found["statuses"]

    assert [name for name, (_, expected) in POLICIES.items() if statuses[name] not in expected] == [], statuses
    assert found["charged"] == [EPISODES] * len(POLICIES)
    assert found["info"] == [200] * len(POLICIES)
    assert found["compiled"] == 0
    assert found["selected"] == len(POLICIES) - 1
