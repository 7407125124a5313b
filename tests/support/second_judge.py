"""A second judge, written from docs/reference/protocol.md alone: nothing of the package, a toy environment, no sandbox.

It has what an agent meets: the calls, the refusals, the charge before the play, and the feedback.
"""

import base64
import json
import secrets
import statistics
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

STEPS, TRAIN_CASES = 4, 16
OBSERVATION = {"type": "Box", "shape": [4], "dtype": "float32", "low": "-Inf", "high": "Inf"}
ACTION = {"type": "Discrete", "n": 2, "start": 0}
Answer = tuple[int, dict[str, Any]]


class Refused(Exception):
    """A request that is refused, with its code, its status and a sentence."""


class SecondJudge:
    """One run in a workspace: case n pays action times n + 1, for four steps."""

    def __init__(self, workspace: Path, budget: int) -> None:
        self.workspace, self.budget = workspace, budget
        self.played: list[dict[str, Any]] = []
        self.closed = False

    @property
    def remaining(self) -> int:
        """Return how many episodes are left."""
        return self.budget - sum(submission["summary"]["n_episodes"] for submission in self.played)

    def info(self) -> dict[str, Any]:
        """Return what GET /info answers."""
        return {
            "state": {
                "remaining_budget": self.remaining,
                "n_submits": len(self.played),
                "is_finalized": self.closed,
                "remaining_submissions": None,
                "remaining_films": 0,
            },
            "episode_budget": self.budget,
            "min_episodes_per_submit": 1,
            "max_episodes_per_submit": self.budget,
            "env_meta": self._meta(0),
            "resource_limits": {"load_s": 30, "reset_s": 10, "act_s": 5},
            "finish_allowed": True,
        }

    def submit(self, body: dict[str, Any]) -> Answer:
        """Check, charge, play, publish."""
        for submission in self.played:
            if body.get("key") and submission["key"] == body["key"]:
                return 200, self.receipt(submission)
        if self.closed or not self.remaining:
            raise Refused(409, "closed", "The run is closed.")
        cases = indices_of(body.get("env_instances"))
        if len(cases) > self.remaining:
            raise Refused(400, "budget_invalid", f"{len(cases)} episodes requested; {self.remaining} are left.")
        number = len(self.played)
        first = sum(submission["summary"]["n_episodes"] for submission in self.played)
        directory = self.workspace / "feedback" / f"submit_{number:03d}"
        files = {"policy.py": (self.workspace / "system" / "policy.py").read_bytes()}
        episodes = [self._episode(case, place, directory, first + place) for place, case in enumerate(cases)]
        returns = [sum(step["reward"] for step in steps) for steps in episodes]
        summary = {
            "schema_version": "1",
            "submit_index": number,
            "env": "toy",
            "status": "ok",
            "n_episodes": len(cases),
            "first_global_episode": first,
            "env_instances": cases,
            "remaining_budget": self.remaining - len(cases),
            "returns": returns,
            "mean_return": statistics.fmean(returns),
            "std_return": statistics.pstdev(returns),
            "min_return": min(returns),
            "max_return": max(returns),
            "episode_lengths": [len(steps) for steps in episodes],
            "errors": [],
            "timeouts": [],
            "ended": ["terminated"] * len(cases),
            "act_seconds": [0.0] * len(cases),
            "act_seconds_limit": 5.0,
        }
        (directory / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
        self.played.append({"key": body.get("key", ""), "files": files, "summary": summary})
        return (202 if body.get("wait") is False else 200), self.receipt(self.played[-1])

    def receipt(self, submission: dict[str, Any]) -> dict[str, Any]:
        """Return the answer on a submission."""
        summary = submission["summary"]
        played = {"played": summary["n_episodes"], "of": summary["n_episodes"], "ahead": 0}
        number = {"submit_id": summary["submit_index"], "status": "ok", "failed_episodes": 0, "trouble": None}
        return {**number, "progress": played, "summary": summary}

    def check(self) -> dict[str, Any]:
        """Construct the policy and have it act once."""
        error = None
        try:
            self._policy(0).act([0.0] * 4)
        except Exception as found:  # noqa: BLE001 - whatever a policy raises
            error = {"message": str(found), "traceback": traceback.format_exc()}
        status = {"status": "import_error" if error else "ok", "error": error, "checks_left": 9}
        return {**status, "stdout": "", "stderr": "", "load_s": 0.001, "act_s": 0.001}

    def answer(self, method: str, path: str, body: dict[str, Any]) -> Answer:
        """Return the code and the answer to a call."""
        match method, path.strip("/").split("/"):
            case "GET", ["info"]:
                return 200, self.info()
            case "POST", ["submit"]:
                return self.submit(body)
            case "POST", ["check"]:
                return 200, self.check()
            case "POST", ["finish"]:
                self.closed = True
                return 200, {"status": "closed"}
            case "GET", ["submissions"]:
                return 200, {"submissions": [{**self.receipt(item), **item["summary"]} for item in self.played]}
            case _, ["submissions", number, *rest] if number.isdecimal() and int(number) < len(self.played):
                submission = self.played[int(number)]
                files = {name: base64.b64encode(content).decode() for name, content in submission["files"].items()}
                return 200, {"submit_id": int(number), "files": files} if rest else self.receipt(submission)
        raise Refused(404, "invalid_request", "There is no such call.")

    def _meta(self, episodes: int) -> dict[str, Any]:
        counts = {"submit_index": len(self.played), "n_episodes_this_submit": episodes}
        names = {"env": "toy", "n_env_instances": TRAIN_CASES, "max_episode_steps": STEPS}
        return {**names, **counts, "obs_space": OBSERVATION, "action_space": ACTION, "reward_components": []}

    def _policy(self, episodes: int) -> Any:
        module: dict[str, Any] = {}
        exec((self.workspace / "system" / "policy.py").read_text(encoding="utf-8"), module)  # noqa: S102 - the test's
        return module["Policy"](OBSERVATION, ACTION, self._meta(episodes))

    def _episode(self, case: int, place: int, directory: Path, number: int) -> list[dict[str, Any]]:
        policy, steps = self._policy(1), []
        policy.reset(place)
        for t in range(STEPS):
            action = int(policy.act(seen := observed(case, t)))
            last = t == STEPS - 1
            step = {"t": t, "obs": seen, "action": action, "reward": float(action * (case + 1)), "terminated": last}
            steps.append({**step, "truncated": False, "info": {}, "reward_components": {}})
        steps[-1]["final_obs"] = observed(case, STEPS)
        file = directory / "episodes" / f"ep_{number:03d}" / "trajectory.jsonl"
        file.parent.mkdir(parents=True)
        file.write_text("".join(json.dumps(step) + "\n" for step in steps), encoding="utf-8")
        return steps


def observed(case: int, t: int) -> list[float]:
    """Return an observation, of which the third is positive in even cases, and the fourth always is."""
    return [float(t), float(case), 0.5 - case % 2, 1.0]


def indices_of(value: object) -> list[int]:
    """Return the cases that a list, or a text such as 0-3,7, names."""
    try:
        parts = [part.split("-") for part in value.split(",")] if isinstance(value, str) else [[n] for n in list(value)]  # type: ignore[call-overload]
        cases = [case for first, *end in parts for case in range(int(first), int(end[0] if end else first) + 1)]
    except (ValueError, TypeError):
        cases = []
    if not cases or not all(0 <= case < TRAIN_CASES for case in cases):
        raise Refused(400, "invalid_env_instance", "env_instances: expected indices of train cases.")
    return cases


@contextmanager
def second_judge(workspace: Path, budget: int) -> Iterator[dict[str, str]]:
    """Serve a run in a workspace; yield the variables by which an agent finds it."""
    judge, token = SecondJudge(workspace, budget), secrets.token_urlsafe(16)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._reply("GET", {})

        def do_POST(self) -> None:
            self._reply("POST", json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}"))

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def _reply(self, method: str, body: dict[str, Any]) -> None:
            _, given, path = self.path.split("/", 2)
            if given == token and path == "task":
                return self._send(200, b"# Task: toy\n")
            try:
                code, answer = judge.answer(method, path if given == token else "", body)
            except Refused as refused:
                code, status, message = refused.args
                answer = {"status": status, "error": {"message": message}}
            return self._send(code, json.dumps(answer).encode())

        def _send(self, code: int, content: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_port}/{token}"
        yield {f"EVOPOLICYGYM_{name.upper()}_URL": f"{base}/{name}" for name in ("info", "task", "submit")}
        server.shutdown()
