"""The client of a workspace, laid where an agent of a test finds it."""

import io
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

import evopolicygym

PACKAGE = Path(evopolicygym.__file__).parent
TEMPLATE, CLIENT = PACKAGE / "runs" / "workspace_template", PACKAGE / "judge_client"


def lay_client(workspace: Path) -> Path:
    """Put the client into a directory, as every workspace has it, and return the directory."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(CLIENT, workspace / "judge_client", dirs_exist_ok=True, ignore=ignored)
    shutil.copy(TEMPLATE / "judge", workspace)
    (workspace / "judge").chmod(0o755)
    return workspace


def run_client(workspace: Path, environment: Mapping[str, str], *words: str) -> "subprocess.CompletedProcess[str]":
    """Run a workspace's client as a program in this process, with these variables of ours alone."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        for name in [name for name in os.environ if name.startswith("EVOPOLICYGYM_")]:
            patch.delenv(name)
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setattr(sys, "argv", ["judge", *words])
        patch.setattr(sys, "path", [*sys.path])
        patch.setattr(sys, "dont_write_bytecode", True)
        patch.chdir(workspace)
        try:
            runpy.run_path(str(workspace / "judge"), run_name="__main__")
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        finally:
            for name in [name for name in sys.modules if name.partition(".")[0] == "judge_client"]:
                del sys.modules[name]
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())
