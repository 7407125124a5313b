"""Evaluations by Inspect AI in a process of their own; run as a program, it plays one with answers that are given.

Inspect's mock model counts tokens by a table that is downloaded; here it counts words, so that no network is needed.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

PATIENCE_S = 240.0
LOOK_S = 0.1
FAIL = "fail"
"""An answer of the model that is an error."""


def evaluate(directory: Path, plan: Mapping[str, Any]) -> "subprocess.CompletedProcess[str]":
    """Play what ``play`` is given, in a directory that becomes the home as well."""
    return _python([__file__, json.dumps(plan)], directory)


def kill_once(directory: Path, plan: Mapping[str, Any], event: str) -> None:
    """Play what ``play`` is given, and kill that process as soon as a run's journal has an event of this kind."""
    line, environment = [sys.executable, __file__, json.dumps(plan)], {**os.environ, **_home(directory)}
    pause = Event()
    with subprocess.Popen(line, cwd=directory, env=environment, stderr=subprocess.DEVNULL) as process:
        for _ in range(int(PATIENCE_S / LOOK_S)):
            pause.wait(LOOK_S)
            if any(event in journal.read_text(encoding="utf-8") for journal in directory.glob("runs/*/*/*/*/journal*")):
                break
        process.kill()


def command_line(directory: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run the program ``inspect`` with arguments, in a directory that becomes the home as well."""
    script = "import sys, inspect_evals; inspect_evals.count_words(); from inspect_ai._cli.main import main; main()"
    return _python(["-c", script, *words], directory)


def read_logs(directory: Path) -> list[Any]:
    """Return all logs of a directory, the oldest first, by Inspect's own reader."""
    from inspect_ai.log import list_eval_logs, read_eval_log

    return [read_eval_log(one) for one in list_eval_logs(str(directory), descending=False)]


def bash(command: str) -> dict[str, Any]:
    """Return an answer that calls the shell."""
    return {"tool": "bash", "arguments": {"command": command}}


def count_words() -> None:
    """Have tokens counted without the table."""
    import tiktoken

    tiktoken.get_encoding = lambda _name: SimpleNamespace(encode=lambda text, **_: text.split())  # type: ignore[assignment]


def play(plan: Mapping[str, Any]) -> None:
    """Evaluate a task with a model that gives the plan's answers in order, by ``eval_set`` where there is a place."""
    from inspect_ai import eval as evaluated
    from inspect_ai import eval_set
    from inspect_ai.model import ModelAPI, ModelOutput, ModelUsage, modelapi

    answers = iter(plan["answers"])

    @modelapi(name="scripted")
    class ScriptedAnswers(ModelAPI):
        """Gives the plan's answers in order, whoever asks."""

        async def generate(self, input: Any, tools: Any, tool_choice: Any, config: Any) -> ModelOutput:  # noqa: A002, ARG002
            answer = next(answers)
            if answer == FAIL:
                raise RuntimeError("the model failed")
            output = ModelOutput.for_tool_call(self.model_name, answer["tool"], answer["arguments"])
            output.usage = ModelUsage(input_tokens=10, output_tokens=5, total_tokens=15)
            return output

    given = {"task_args": plan["options"], "model": "scripted/model", "display": "none", **plan.get("settings", {})}
    if place := plan.get("eval_set"):
        eval_set(plan["task"], log_dir=place, **given)
    else:
        evaluated(plan["task"], **given)


def _home(directory: Path) -> dict[str, str]:
    state = str(directory / "state")
    return {
        "HOME": str(directory),
        "XDG_STATE_HOME": state,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(Path(__file__).parent), os.environ.get("PYTHONPATH")))),
    }


def _python(words: Sequence[str], directory: Path) -> "subprocess.CompletedProcess[str]":
    line = [sys.executable, *words]
    return subprocess.run(
        line,
        cwd=directory,
        env={**os.environ, **_home(directory)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


if __name__ == "__main__":
    play(json.loads(sys.argv[1]))
