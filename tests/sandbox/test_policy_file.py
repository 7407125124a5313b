"""What runs as the policy is ``policy.py``, whatever lies beside it."""

from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from evopolicygym.core.rollout import EpisodeJob
from playground import Playground, one_worker, policy
from simulators import STEPS, spec

OURS, OTHER = policy(top="print('the file')"), policy(top="print('another')")
BESIDE = ("policy/__init__.py", "policy/policy.py", *(f"policy{suffix}" for suffix in EXTENSION_SUFFIXES), "policy.pyc")


@pytest.fixture(scope="module", params=["bubblewrap", "process"])
def yard(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    """Return a place to play policies in."""
    with one_worker(request.param, spec("Plain"), tmp_path_factory.mktemp("yard")) as ground:
        yield ground


def printed(yard: Playground, text: str, **beside: str) -> list[str]:
    """Play a policy with other files beside it, by their paths; return the lines that it printed."""
    checkpoint = yard.checkpoint(text)
    for name, content in beside.items():
        (checkpoint / name).parent.mkdir(exist_ok=True)
        (checkpoint / name).write_text(content)
    ((_, job, episode),) = yard.executor.play([yard.rollout(checkpoint, 0)], lambda *_: None)
    assert (episode.failure, episode.length) == (None, STEPS)
    return _lines(job)


def _lines(job: EpisodeJob) -> list[str]:
    return (job.directory or Path()).joinpath("stdout.txt").read_text().splitlines()


@pytest.mark.parametrize("name", BESIDE)
def test_nothing_beside_it_runs_in_its_place(yard: Playground, name: str) -> None:
    """A package, a compiled module and byte code of its name are not what is imported."""
    assert printed(yard, OURS, **{name: OTHER}) == ["the file"]


def test_other_modules_import_the_same_one(yard: Playground) -> None:
    """What else of a checkpoint imports the policy's module, early or late, gets the one that plays."""
    helper = (
        "from policy import MARK\ndef same(cls):\n    import policy\n    return policy.Policy is cls, policy.__file__\n"
    )
    text = policy(top="MARK = 7\nimport helper", init="print(helper.MARK, *helper.same(type(self)))")
    (line,) = printed(yard, text, **{"helper.py": helper, "policy/__init__.py": OTHER})

    assert line.startswith("7 True /")
    assert line.endswith("/policy.py")


@pytest.mark.parametrize("name", ["statistics.py", "heapq/__init__.py"])
def test_its_own_modules_come_before_preloaded_ones(yard: Playground, name: str) -> None:
    """A module of the checkpoint is imported even if the zygote loaded the standard library's of that name before."""
    module = name.removesuffix(".py").partition("/")[0]
    text = policy(
        top=f"import {module}, pathlib\nprint({module}.OWN, 'copy' in {module}.__dict__, pathlib.Path('a') / 'b')"
    )

    assert printed(yard, text, **{name: "OWN = 'own'"}) == ["own False a/b"]


def test_common_modules_are_loaded_before_it(yard: Playground) -> None:
    """What policies commonly import is in memory when the policy's first line runs."""
    names = (
        "collections",
        "dataclasses",
        "heapq",
        "itertools",
        "json",
        "math",
        "pathlib",
        "random",
        "statistics",
        "typing",
    )

    assert printed(yard, policy(top=f"import sys\nprint([name for name in {names} if name not in sys.modules])")) == [
        "[]"
    ]


COMPILED = """
import os
from package.helper import __cached__ as cached, run
print(os.path.exists(cached) and [os.stat(os.path.dirname(cached)).st_mtime, run.__code__.co_filename, run()])
"""


def test_modules_are_compiled_once(yard: Playground) -> None:
    """The policy's modules are compiled when its checkpoint is laid, where the sandbox has a copy of its own."""
    files = {"package/__init__.py": "", "package/helper.py": "def run():\n    return 7\n"}
    (line,) = printed(yard, policy(top=COMPILED), **files)
    if line == "False" and yard.executor.info.findings["process numbers"] != "the same in every episode":
        pytest.skip("a zygote of this sandbox copies no checkpoint")

    assert line == "[0.0, '/policy/package/helper.py', 7]"


def test_a_warning_of_its_syntax_is_shown_in_every_episode(yard: Playground) -> None:
    """What Python says of a source when it compiles it, agents can read in each episode."""
    checkpoint = yard.checkpoint(policy(top="print('same' if 1 is 1 else 'other')"))
    rollout = yard.rollout(checkpoint, 0, 1)
    list(yard.executor.play([rollout], lambda *_: None))

    assert all("SyntaxWarning" in (job.directory or Path()).joinpath("stderr.txt").read_text() for job in rollout.jobs)


@pytest.mark.parametrize("name", ["__pycache__", "__pycache__/policy.cpython-311.pyc"])
def test_nothing_keeps_it_from_being_compiled(yard: Playground, name: str) -> None:
    """A file where its bytecode would lie changes nothing."""
    assert printed(yard, OURS, **{name: "no bytecode"}) == ["the file"]


def test_a_traceback_names_its_line(yard: Playground) -> None:
    """An error while it is imported is reported with the file's line, and without those of the import system."""
    error = yard.load("x = 1\nraise ValueError('wrong turn')\n", helper="")

    assert error
    assert "policy.py\", line 2, in <module>\n    raise ValueError('wrong turn')" in error.traceback
    assert "importlib" not in error.traceback
