"""What tests of training sessions ask, and a client of the server."""

import json
from http.cookies import SimpleCookie
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from evopolicygym.training.sessions import TrainingOptions, training_config

OPTIONS: TrainingOptions = {
    "tasks": ["cartpole"],
    "interfaces": ["standard"],
    "texts": ["terse"],
    "budgets": [8],
    "validation": 2,
    "held_out": 3,
    "price": 0.1,
    "workers": 1,
    "wait_s": 600,
}
CONFIG = training_config(**OPTIONS)
POLICY = """\
class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        pass

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return {action}
"""
STRONG = "int(obs[0] / 2 + obs[1] + 18 * obs[2] + 3.5 * obs[3] > 0)"
"""The action of a policy for cartpole that holds the pole to the end."""
HOLDS = POLICY.format(action=STRONG)


class Reply(NamedTuple):
    """An answer of the server."""

    status: int
    body: dict[str, Any]
    cookie: str


def ask(url: str, body: object = None, cookie: str = "", **headers: str) -> Reply:
    """Send a request, with a body by POST, and return the answer."""
    data = None if body is None else json.dumps(body).encode()
    sent = {"content-type": "application/json", "cookie": cookie, **headers}
    try:
        response = urlopen(Request(url, data, sent), timeout=600)  # noqa: S310 - the server's
    except HTTPError as error:
        response = error  # type: ignore[assignment] # an answer, too
    with response:
        cookies = SimpleCookie(response.headers.get("set-cookie", ""))
        return Reply(
            response.status, json.load(response), "; ".join(f"{key}={each.value}" for key, each in cookies.items())
        )
