"""Levels whose filter lets through a little too much: what a search for channels must notice."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from evopolicygym.sandbox import overlays, seccomp
from evopolicygym.sandbox.backends import bubblewrap
from evopolicygym.sandbox.base import WorkerDirectory, ZygoteView
from evopolicygym.sandbox.program import enclosed, view
from evopolicygym.sandbox.seccomp import Permission


@cache
def wider(*calls: str) -> bytes:
    """Return the policies' filter with all of some system calls besides."""
    listed = [one for one in seccomp.permissions() if one.call not in calls]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seccomp, "permissions", lambda: [*listed, *map(Permission, calls)])
        return seccomp.policy_filter.__wrapped__() or b""


class _Wider:
    calls: tuple[str, ...] = ()

    def policy_sandbox(self, ground: WorkerDirectory, control: int, environment: Mapping[str, str]) -> ZygoteView:
        inside: Any = super().policy_sandbox(ground, control, environment)
        return replace(inside, confinement=replace(inside.confinement, seccomp=wider(*self.calls).hex()))


class SharedFiles(bubblewrap.Backend):
    """Policies and programs see the machine's files, as they do where no overlay can be had."""

    def policy_sandbox(self, ground: WorkerDirectory, control: int, environment: Mapping[str, str]) -> ZygoteView:
        with shared_files():
            return super().policy_sandbox(ground, control, environment)


class EveryCommand(_Wider, SharedFiles):
    """Policies may give files any command, as they once could, and are the user who owns them."""

    calls = ("fcntl",)

    def policy_sandbox(self, ground: WorkerDirectory, control: int, environment: Mapping[str, str]) -> ZygoteView:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bubblewrap, "sandbox_user", lambda _place: None)
            return super().policy_sandbox(ground, control, environment)


class EveryDescriptor(_Wider, bubblewrap.Backend):
    """Policies may ask for the numbers of their pipes."""

    calls = ("fstat",)


class Locks(_Wider, SharedFiles):
    """Policies may lock files."""

    calls = ("flock",)


@contextmanager
def shared_files() -> Iterator[None]:
    """Have no copies and no overlays in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bubblewrap, "shared_copy", lambda *_: (None, "a test has none"))
        for module in (bubblewrap, enclosed, view, overlays):
            patch.setattr(module, "why_shared", lambda *_: "a test has none")
        yield
