"""Programs that run in the Python environments of others' stacks (``make doors``); they import nothing of ours.

``python training_doors.py openenv URL`` plays an episode by OpenEnv's own client, and grades another by its validator's
runtime graders; ``python training_doors.py model`` is a scripted model that plays by tools where it has some, and else
by texts. Each prints JSON.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

POLICY = """\
class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        pass

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return int(obs[2] + obs[3] / 2 > 0)
"""
REPLIES = (f"```python\n{POLICY}```\n/submit 2", "/finish")
ACTIONS = (
    {"text": f"```python\n{POLICY}```"},
    {"action": "submit", "arguments": {"episodes": 2}},
    {"action": "finish"},
)
CALLS = (
    ("write", {"path": "policy.py", "content": POLICY}),
    ("submit", {"episodes": 2}),
    ("finish", {}),
)


def openenv(url: str) -> None:
    """Play by OpenEnv's client and collect evidence for its graders."""
    from openenv.core import GenericEnvClient
    from openenv.validation.graders.runtime import ObservationSchemaGrader, RewardWellFormedGrader, StateContractGrader
    from openenv.validation.runtime.collector import collect_runtime_evidence
    from openenv.validation.runtime.contracts import RuntimePlan, RuntimeReset

    with GenericEnvClient(base_url=url, message_timeout_s=600).sync() as env:
        env.reset(seed=3, episode_id="mine")
        results = [env.step(action) for action in ACTIONS]
        state = env.state()
    plan = RuntimePlan(
        plan_schema_version="1",
        reset=RuntimeReset(episode_id="graded", seed=4),
        actions=[dict(each) for each in ACTIONS],
    )
    evidence = collect_runtime_evidence(url, plan, episode_timeout_s=600)
    manifest = SimpleNamespace(reward=SimpleNamespace(range=(-1.0, 1.0)))
    subject = SimpleNamespace(runtime_evidence=evidence, manifest=manifest)
    graders = (RewardWellFormedGrader(), ObservationSchemaGrader(), StateContractGrader())
    found = {
        "rewards": [result.reward for result in results],
        "done": [result.done for result in results],
        "steps": state["step_count"],
        "episode": state["episode_id"],
        "grades": {each.check_id: [str(each.run(subject).status), each.run(subject).evidence] for each in graders},
        "failure": evidence.failure_reason,
    }
    print(json.dumps(found, default=str))


class Model(BaseHTTPRequestHandler):
    """Chat completions: the next reply of the script, streamed where that is asked."""

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_POST(self) -> None:
        """Answer a request."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        script = CALLS if body.get("tools") else REPLIES
        message = _message(script[turn]) if turn < len(script) else _message("Done.")
        kind = "chat.completion.chunk" if body.get("stream") else "chat.completion"
        base = {"id": f"reply-{turn}", "created": 0, "model": "scripted", "object": kind}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        reason = "tool_calls" if "tool_calls" in message else "stop"
        self.send_response(200)
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            content = json.dumps({**base, "choices": [choice], "usage": usage}).encode()
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            return
        chunks = (
            {"choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
            {"choices": [], "usage": usage},
        )
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for chunk in chunks:
            self.wfile.write(b"data: " + json.dumps({**base, **chunk}).encode() + b"\n\n")
        self.wfile.write(b"data: [DONE]\n\n")


def _message(reply: str | tuple[str, dict]) -> dict:
    if isinstance(reply, str):
        return {"role": "assistant", "content": reply}
    name, arguments = reply
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": name, "type": "function", "function": function}],
    }


def main() -> None:
    """Do what is asked."""
    if sys.argv[1] == "openenv":
        openenv(sys.argv[2])
    else:
        server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
        print(json.dumps({"port": server.server_port}), flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
