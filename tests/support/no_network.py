"""A machine without a network: programs that are started in one have a loopback of their own and nothing besides."""

import subprocess

import pytest

from evopolicygym.core.errors import SandboxError
from evopolicygym.sandbox.bwrap import bwrap


def without_network() -> list[str]:
    """Return what starts a program so; the test is skipped where that can't be."""
    try:
        prefix = [bwrap(), "--dev-bind", "/", "/", "--unshare-net"]
    except SandboxError as error:
        pytest.skip(f"no machine without a network can be made here: {error}")
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no machine without a network can be made here: bubblewrap can't unshare it")
    return prefix
