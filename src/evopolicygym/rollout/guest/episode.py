"""A policy process, from the fork to the end of its episode.

After ``confine`` it runs untrusted code, so the host trusts nothing that this process sends.
"""

import contextlib
import json
import os
import random
import sys
import traceback
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from typing import Any, NoReturn

import numpy as np

from . import layout, lockdown

QUESTIONS, ANSWERS = 3, 4
"""The descriptors of the two pipes. 0, 1 and 2 are null, stdout and stderr; there are no others."""
replaceable_modules: frozenset[str] = frozenset()
"""Names of modules that the zygote loaded for policies alone; a checkpoint's files of such a name come first."""


class PolicyMissing(Exception):
    """``policy.py`` defines no class ``Policy``."""


def run_policy(setup: Mapping[str, Any], confinement: lockdown.PreparedLockdown) -> NoReturn:
    """Load the policy, play one episode and exit."""
    failure = ""
    try:
        lockdown.confine(confinement)
        _play(setup)
    except layout.ChannelClosed:
        pass
    except BaseException as error:  # noqa: BLE001 - SystemExit and the like are policy failures, too
        failure = _report(error)
    finally:
        if failure:
            _send_report(failure, layout.size(setup["action_space"], wide=True), ANSWERS)
        _flush()
        os._exit(0)


def _play(setup: Mapping[str, Any]) -> None:
    question = bytearray(layout.HEADER.size + layout.size(setup["obs_space"], wide=False))
    answer = bytearray(layout.HEADER.size + layout.size(setup["action_space"], wide=True))
    read_observation = layout.bind(setup["obs_space"], question, layout.HEADER.size, wide=False).read
    write_action = layout.bind(setup["action_space"], answer, layout.HEADER.size, wide=True).write
    _prepare(setup)
    _send(answer, layout.STARTED, 0)
    _set_stage("import_error")
    policy = _construct(setup)
    _send(answer, layout.LOADED, 0)
    layout.read_whole(QUESTIONS, question)
    policy.reset(setup["episode_index"])
    _send(answer, layout.READY, 0)
    act, views = policy.act, [question]
    pack, unpack, frame_size = layout.HEADER.pack_into, layout.HEADER.unpack_from, len(question)
    readv, write = os.readv, os.write
    while True:
        received = readv(QUESTIONS, views)
        if received != frame_size:
            layout.read_whole(QUESTIONS, memoryview(question)[received:]) if received else _raise_closed()
        write_action(act(read_observation()))
        pack(answer, 0, layout.ACTION, unpack(question)[1])
        if write(ANSWERS, answer) != len(answer):
            return


def _prepare(setup: Mapping[str, Any]) -> None:
    """Do all that precedes the policy's first line."""
    os.chdir(setup["policy_path"])
    sys.path.insert(0, setup["policy_path"])
    sys.dont_write_bytecode = True
    _forget_replaced_modules(setup["policy_path"])
    _seed(setup["policy_seed"])
    sys.meta_path.insert(0, _PolicyFile(f"{setup['policy_path']}/policy.py"))


def _forget_replaced_modules(policy_path: str) -> None:
    """Have imports find the checkpoint's own modules where the zygote loaded others of their names for all policies."""
    files = os.listdir(policy_path)  # noqa: PTH208 - faster
    names = replaceable_modules.intersection(name.partition(".")[0] for name in files)
    for module in [module for module in replaceable_modules if module.partition(".")[0] in names]:
        del sys.modules[module]


def _construct(setup: Mapping[str, Any]) -> Any:
    module = __import__("policy")
    if not isinstance(getattr(module, "Policy", None), type):
        raise PolicyMissing("policy.py defines no class Policy")
    _set_stage("init_error")
    policy = module.Policy(setup["obs_space"], setup["action_space"], setup["env_meta"])
    _seed(setup["policy_seed"])
    return policy


class _PolicyFile:
    """Finds the module ``policy`` in ``policy.py``, even beside a package or a compiled module of that name."""

    def __init__(self, path: str) -> None:
        self._path = path

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        return spec_from_file_location(name, self._path) if name == "policy" else None


def _seed(number: int) -> None:
    random.seed(number)
    np.random.seed(number)  # noqa: NPY002 - the global generator is what policies use


_stage = "import_error"
"""The failure reason of an exception that is raised now."""


def _set_stage(stage: str) -> None:
    global _stage  # noqa: PLW0603 - one process, one policy
    _stage = stage


def _send(answer: bytearray, kind: int, step: int) -> None:
    _set_stage("error")
    layout.HEADER.pack_into(answer, 0, kind, step)
    layout.write_whole(ANSWERS, answer)


def _raise_closed() -> NoReturn:
    raise layout.ChannelClosed


def _report(error: BaseException) -> str:
    """Return a failure as JSON of at most ``layout.REPORT_LIMIT`` bytes."""
    reason = _reason(error)
    try:
        message = f"{type(error).__name__}: {error}"[:500]
        trace = "".join(traceback.format_exception(error))
    except Exception:  # noqa: BLE001 - whatever the policy's __str__ raises
        message, trace = type(error).__name__, ""
    number = error.errno if isinstance(error, OSError) and isinstance(error.errno, int) else 0
    report = json.dumps({"reason": reason, "message": message, "traceback": trace[-12_000:], "errno": number})
    if len(report) > layout.REPORT_LIMIT:
        return json.dumps({"reason": reason, "message": message[:100], "traceback": "", "errno": number})
    return report


def _reason(error: BaseException) -> str:
    if isinstance(error, PolicyMissing):
        return "missing_policy"
    if isinstance(error, MemoryError) and _stage == "error":
        return "memory"
    if isinstance(error, layout.Unreadable):
        return "invalid_action"
    return _stage


def report_not_started(error: BaseException, setup: Mapping[str, Any], answers: int) -> None:
    """Report on a pipe for answers why this process can't become a policy."""
    _send_report(_report(error), layout.size(setup["action_space"], wide=True), answers)


def _send_report(report: str, action_size: int, answers: int) -> None:
    body = report.encode("utf-8", "replace")[: layout.REPORT_LIMIT]
    with contextlib.suppress(OSError):
        layout.write_whole(answers, layout.HEADER.pack(layout.FAILED, len(body)) + bytes(action_size) + body)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # the policy may have replaced it
            stream.flush()
