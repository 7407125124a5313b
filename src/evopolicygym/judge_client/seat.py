"""An agent's seat: a workspace, and the judge that plays the policy in it."""

import contextlib
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from . import feedback, pictures, policy
from .address import ADDRESS_FILE, INFO_URL, JudgeAddress, address_in, read_variables
from .client import Answer, Client, NoJudge, Refused, Unreachable
from .workspace_files import NotThere, Workspace

CLOSED_FILE = "closed.json"
"""Says why a run of an agent from outside was closed, and whether it is over."""
SPENT, FINISHED = "The budget is spent", "The agent finished"
REASONS = {
    "budget_spent": SPENT,
    "submissions_spent": "All submissions were made",
    "finish_asked": FINISHED,
    "agent_ended": "The agent ended",
    "allowance_spent": "A limit of the agent is reached",
}
SeatErrors = (Refused, Unreachable, NotThere, OSError)
"""All that a seat raises, with messages for an agent."""
NO_JUDGES_ANSWER = "What answered, or a file in feedback/, is not a judge's."
CHANGED = (
    *(ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError, MemoryError, EOFError),
    *(zipfile.BadZipFile, zlib.error),
)
"""What reading answers and files raises that are not a judge's."""


class Seat(Client):
    """The judge's calls, and what they mean for the files of a workspace, which may have been written by anybody."""

    def __init__(self, workspace: Workspace, address: "Callable[[], JudgeAddress | None]") -> None:
        """Work in a workspace, and ask the judge at an address that is looked up for each request."""
        super().__init__(address)
        self.workspace = workspace

    def request(self, path: str, body: "Mapping[str, object] | None" = None, timeout_s: "float | None" = None) -> bytes:
        """Return an answer, as ``Client`` does; a refusal names cases as agents do."""
        try:
            return super().request(path, body, timeout_s)
        except Refused as refused:
            message = refused.message.replace("env_instances", "cases")
            raise Refused(refused.status, message, refused.http_status) from refused

    def submission(self, number: int) -> Answer:
        """Return the judge's answer on a submission, or its summary in feedback/ where the judge has left."""
        try:
            return super().submission(number)
        except (Refused, Unreachable):
            summary = self._summaries().get(number)
            if summary is None:
                raise
            return {"submit_id": number, "status": summary.get("status"), "summary": summary}

    def submissions(self, observe: Callable[[Exception], object] = lambda _: None) -> Answer:
        """Return the judge's answer on all submissions, or their summaries in feedback/ where the judge has left."""
        try:
            return super().submissions()
        except (Refused, Unreachable) as error:
            summaries = self._summaries()
            if not summaries:
                raise
            observe(error)
            return {"submissions": [{**summary, "submit_id": number} for number, summary in sorted(summaries.items())]}

    def last_submission(self) -> int:
        """Return the number of the last submission; 0 if there is none."""
        return max((int(entry["submit_id"]) for entry in super().submissions()["submissions"]), default=0)

    def feedback(self, number: int, file: str) -> str:
        """Return a file of a submission's feedback as text."""
        return feedback.read(self.workspace, number, file)

    def compare(self, numbers: "Sequence[int]") -> str:
        """Return a table of submissions' returns and lengths by case, and how the others differ from the first."""
        with _as_the_judge_wrote():
            return feedback.compare(self.workspace, numbers)

    def trace(self, episode: str, every: int = 1, fields: "str | None" = None) -> str:
        """Return an episode's steps as a table."""
        with _as_the_judge_wrote():
            return feedback.trace(self.workspace, episode, every, fields)

    def export(self, episodes: "list[str]", to: str) -> Answer:
        """Write episodes as npz files into a directory of the workspace; return their paths."""
        with _as_the_judge_wrote():
            return {"files": feedback.export(self.workspace, episodes, to)}

    def frames(self, episode: str, steps: str) -> "dict[int, bytes]":
        """Return pictures of an episode as PNG files by step, from its film or else from its observations."""
        wanted = pictures.steps_of(steps)
        with _as_the_judge_wrote():
            number, position = feedback.place_of(self.workspace, episode)
            filmed = feedback.summaries(self.workspace)[number].get("films") or []
            if position not in [film["episode"] for film in filmed if film["film"]]:
                return pictures.seen(self.workspace, episode, wanted)
        return self.pictures(number, position, wanted)

    def diff(self, first: int, second: "int | None" = None) -> str:
        """Return a diff from one submission's policy to another's, or to system/ as it stands."""
        before = self.policy_of(first)
        after = policy.present(self.workspace) if second is None else self.policy_of(second)
        name = f"{policy.SYSTEM}/" if second is None else f"submission {second}"
        return policy.difference(before, after, f"submission {first}", name)

    def restore(self, number: int, path: str = "") -> Answer:
        """Restore system/ as it was in a submission, or only one file or directory of it."""
        if path:
            target, all_files = os.path.normpath(path.removeprefix(f"{policy.SYSTEM}/")), self.policy_of(number)
            files = {name: all_files[name] for name in all_files if name == target or name.startswith(f"{target}/")}
            if not files:
                raise NotThere(f"Submission {number} has no {target}; it has {', '.join(sorted(all_files))}.")
        else:
            files = self.restore_policy(number)
            self.workspace.clear(policy.SYSTEM)
        policy.write(self.workspace, files)
        return {"restored": number, "files": sorted(files)}

    def closed(self) -> str:
        """Return why the run is closed, as closed.json or else feedback shows it; empty if neither does."""
        over = False
        try:
            document = json.loads(self.workspace.read(CLOSED_FILE))
            why, over = REASONS.get(document["reason"]) or str(document["reason"]) or SPENT, document["over"]
        except (OSError, NotThere, *CHANGED):
            try:
                is_spent = any(not summary.get("remaining_budget") for summary in self._summaries().values())
            except (OSError, NotThere):
                return ""
            if not is_spent:
                return ""
            why = SPENT
        what = "the run is over" if over else "submissions are validated, and the best one is scored"
        return f"closed: {why[0].lower()}{why[1:]}; {what}. Results stay in feedback/."

    def _before_retry(self, error: "Exception | None") -> None:
        if not isinstance(error, TimeoutError) and (why := self.closed()):
            raise Refused("", why, 0) from error

    def _summaries(self) -> "dict[int, dict[str, Any]]":
        with _as_the_judge_wrote():
            return feedback.summaries(self.workspace)


def found_address(workspace: Workspace) -> "JudgeAddress | None":
    """Return the address in the environment, or else in the workspace's file; None if neither has one."""
    if INFO_URL in os.environ:
        return address_in(os.environ)
    try:
        return address_in(read_variables(workspace.read(ADDRESS_FILE)))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, NotThere) as error:
        raise NoJudge(f"{ADDRESS_FILE} can't be read: {error}. Its run's user can resume the run.") from error


@contextlib.contextmanager
def _as_the_judge_wrote() -> Iterator[None]:
    """Raise ``NotThere`` where files of feedback/ don't hold what the judge wrote."""
    try:
        yield
    except CHANGED as error:
        why = type(error).__name__
        raise NotThere(f"{feedback.FEEDBACK}/ can't be read: it is not as the judge wrote it ({why}).") from error
