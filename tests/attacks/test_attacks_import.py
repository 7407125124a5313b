"""Policies that are hardly Python, in a whole run: what they are is found out in the sandbox and never by the judge."""

import json
import sys
from pathlib import Path
from threading import Thread
from typing import Any

import httpx2

from asking import TLS
from evopolicygym.core.agent import AgentConfig, AgentEnd, JudgeEndpoint, Turn, Workspace
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
answers: dict[str, dict[str, Any]] = {}
beside: list[int] = []


def make_importer(_config: AgentConfig) -> Player:
    """Submit one policy after another, and ask for /info while each is played."""

    def play(desk: Workspace, door: JudgeEndpoint) -> Turn:
        for name, (policy, _) in POLICIES.items():
            (desk.system / "policy.py").write_bytes(policy)
            asking = Thread(target=_submit, args=(door.address.base_url, name))
            asking.start()
            beside.append(httpx2.get(f"{door.address.base_url}/info", trust_env=False, verify=TLS).status_code)
            asking.join()
        return Turn(AgentEnd.FINISHED)

    return Player(play)


def _submit(base_url: str, name: str) -> None:
    body = json.dumps({"env_instances": list(range(EPISODES))})
    headers = {"Content-Type": "application/json"}
    answer = httpx2.post(f"{base_url}/submit", content=body, headers=headers, timeout=120, trust_env=False, verify=TLS)
    answers[name] = answer.json()


compiled: list[object] = []
watching = False


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    if watching and event == "compile" and "policy.py" in str(arguments[1:]):
        compiled.append(arguments)


def test_policies_that_are_hardly_python(tmp_path: Path) -> None:
    """Each is charged in full and ends as the protocol says; the judge compiles none and answers all the while."""
    global watching  # noqa: PLW0603 - an audit hook can't be taken out again
    sys.addaudithook(_watch)
    watching = True
    told = played(config(tmp_path, "test_attacks_import:make_importer", budget=EPISODES * len(POLICIES)))
    watching = False

    assert {name: answers[name]["status"] in expected for name, (_, expected) in POLICIES.items()} == dict.fromkeys(
        POLICIES, True
    ), {name: answer["status"] for name, answer in answers.items()}
    assert [EPISODES] * len(POLICIES) == [len(one.charged.env_instances) for one in told.state.submissions]
    assert [200] * len(POLICIES) == beside
    assert compiled == []
    assert told.state.selected
    assert told.state.selected.submit_index == len(POLICIES) - 1
