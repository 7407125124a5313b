"""Requests to the judge, each a method: they are repeated while the connection fails, and their errors are typed."""

import base64
import http.client
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .address import ADDRESS_FILE, INFO_URL, InvalidAddress, JudgeAddress

TRIES, PAUSE_S, TIMEOUT_S = 8, 1.0, 60.0
"""Attempts for each request while the connection fails, the pause between two, and the limit of each."""
CHECK_TIMEOUT_S = 4 * 3600.0
"""A check waits until all charged submissions have been played."""
FIRST_LOOK_S, LONGEST_LOOK_S = 0.01, 0.5
"""Seconds between two looks at a submission that is playing; they grow."""
MAX_ANSWER = 256 << 20
"""Bytes of an answer; a checkpoint in base64 is the largest."""
MAX_MESSAGE = 300
"""Characters of an answer that is not the judge's."""
NO_ADDRESS = (
    f"No judge is running: the run is closed, or was stopped and its user can resume it. ({INFO_URL} is not set, and "
    f"there is no {ADDRESS_FILE} here.) Results are in feedback/."
)
Answer = dict[str, Any]


class Refused(Exception):
    """The judge refuses a request; nothing was charged."""

    def __init__(self, status: str, message: str, http_status: int) -> None:
        super().__init__(f"{status}: {message}" if status else message)
        self.status, self.message, self.http_status = status, message, http_status


class Unreachable(Exception):
    """The judge doesn't answer; a submission may have been charged."""


class NoJudge(Unreachable):
    """No address of a judge is known, or nothing listens there: nothing was sent."""


class Client:
    """Asks the judge of a run. Every request may be repeated, as submissions carry a key."""

    def __init__(
        self, address: Callable[[], "JudgeAddress | None"], pause: Callable[[float], object] = time.sleep
    ) -> None:
        """Look up the address for each attempt, as a resumed run has a new one; ``pause`` waits, and may raise."""
        self._address, self._pause = address, pause

    def all_info(self) -> Answer:
        """Return the state and the rules of the run."""
        return self.ask("/info")

    def task(self) -> str:
        """Return the task description as Markdown."""
        return self.request("/task").decode("utf-8", "replace")

    def check(self, settings: "Mapping[str, object] | None" = None) -> Answer:
        """Construct the policy and have it act once, with some values of its parameters; free of charge."""
        return self.ask("/check", {"set": dict(settings)} if settings else {}, CHECK_TIMEOUT_S)

    def accept(self, cases: "str | Sequence[int]", key: str, **fields: object) -> Answer:
        """Submit the policy and return at once, with the submission's number.

        ``fields`` are further ones of the request; those without a value are left out.
        """
        more = {name: value for name, value in fields.items() if value not in (None, "", (), [], {})}
        return self.ask("/submit", {"env_instances": cases, "key": key, "wait": False, **more})

    def submissions(self) -> Answer:
        """Return all submissions in short."""
        return self.ask("/submissions")

    def submission(self, number: int) -> Answer:
        """Return a submission; its summary is null while it plays."""
        return self.ask(f"/submissions/{number:03d}")

    def wait(self, number: int, observe: Callable[[Answer], object] = lambda _: None) -> Answer:
        """Return a submission once it is over; ``observe`` is called with each answer before."""
        pause_s = FIRST_LOOK_S
        while (answer := self.submission(number)).get("summary") is None:
            observe(answer)
            self._pause(pause_s)
            pause_s = min(LONGEST_LOOK_S, pause_s * 1.5)
        return answer

    def policy_of(self, number: int) -> "dict[str, bytes]":
        """Return the files of a submission's policy by their paths in system/."""
        return _decoded(self.ask(f"/submissions/{number:03d}/policy")["files"])

    def restore_policy(self, number: int) -> "dict[str, bytes]":
        """Return the same, and make this submission the parent of the next one."""
        return _decoded(self.ask(f"/submissions/{number:03d}/restore", {})["files"])

    def pictures(self, number: int, position: int, steps: Sequence[int]) -> "dict[int, bytes]":
        """Return pictures of a filmed episode, named by its place in the submission, as PNG files by step."""
        asked = ",".join(map(str, steps))
        answer = self.ask(f"/submissions/{number:03d}/frames?episode={position}&steps={asked}")
        return {int(step): picture for step, picture in _decoded(answer["frames"]).items()}

    def finish(self) -> Answer:
        """End the run with budget left."""
        return self.ask("/finish", {})

    def ask(self, path: str, body: "Mapping[str, object] | None" = None, timeout_s: "float | None" = None) -> Answer:
        """Return an answer that is a JSON object."""
        content = self.request(path, body, timeout_s)
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise Unreachable(f"What answers is not a judge: {content[:MAX_MESSAGE]!r}") from error
        if not isinstance(answer, dict):
            raise Unreachable(f"What answers is not a judge: {content[:MAX_MESSAGE]!r}")
        return answer

    def request(self, path: str, body: "Mapping[str, object] | None" = None, timeout_s: "float | None" = None) -> bytes:
        """Return an answer; raise ``Refused``, or ``Unreachable`` when all attempts failed."""
        was_sent = False
        for left in reversed(range(TRIES)):
            address = self._address()
            if address is None:
                self._before_retry(None)
                raise NoJudge(NO_ADDRESS)
            try:
                status, content = _exchange(address, path, body, timeout_s or TIMEOUT_S)
            except InvalidAddress as error:
                raise NoJudge(str(error)) from error
            except (OSError, http.client.HTTPException) as error:
                was_sent = was_sent or not isinstance(error, ConnectionRefusedError | FileNotFoundError)
                self._before_retry(error)
                if not left:
                    raise _unreachable(error, was_sent=was_sent) from error
                self._pause(PAUSE_S)
                continue
            if 200 <= status < 300:  # noqa: PLR2004 - HTTP's own numbers
                return content
            raise _refusal(status, content)
        raise AssertionError

    def _before_retry(self, error: "Exception | None") -> None:
        """Raise ``Refused`` if it is known why the judge doesn't answer; None: no address is known."""


def _exchange(
    address: JudgeAddress, path: str, body: "Mapping[str, object] | None", timeout_s: float
) -> "tuple[int, bytes]":
    """Send one request; return the status and the body of its answer."""
    connection = address.http(timeout_s)
    try:
        data = None if body is None else json.dumps(body).encode()
        method = "GET" if data is None else "POST"
        connection.request(method, address.path + path, data, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        content = answer.read(MAX_ANSWER + 1)
    finally:
        connection.close()
    if len(content) > MAX_ANSWER:
        raise http.client.HTTPException(f"an answer of more than {MAX_ANSWER:,} bytes")
    return answer.status, content


def _unreachable(error: Exception, *, was_sent: bool) -> Unreachable:
    if was_sent:
        return Unreachable(f"The judge doesn't answer: {error}")
    return NoJudge("The judge isn't running, so nothing was charged. If the run was stopped, its user can resume it.")


def _refusal(http_status: int, content: bytes) -> Refused:
    text = content.decode("utf-8", "replace")
    try:
        answer = json.loads(text)
        return Refused(str(answer["status"]), str(answer["error"]["message"]), http_status)
    except (ValueError, KeyError, TypeError, RecursionError):
        return Refused("", f"HTTP {http_status}: {text[:MAX_MESSAGE]}", http_status)


def _decoded(contents: "Mapping[str, str]") -> "dict[str, bytes]":
    return {name: base64.b64decode(content) for name, content in contents.items()}
