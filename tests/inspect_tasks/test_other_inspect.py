"""Another version of Inspect AI may lack private names that our sandbox uses: then the one that works is named."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

from evopolicygym.core.errors import UsageError

pytest.importorskip("inspect_ai")
REGISTRY = "evopolicygym.inspect_tasks.registry"


def test_a_missing_private_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inspect prints why our tasks aren't there: the name that is missing, and the version that is tested."""
    tested = import_module(REGISTRY).TESTED
    lock = Path(__file__).parents[2].joinpath("constraints.txt").read_text(encoding="utf-8").splitlines()
    monkeypatch.delattr("inspect_ai._control.eval_state.stable_task_id_for_eval")
    for name in (REGISTRY, "evopolicygym.inspect_tasks.sandbox"):
        monkeypatch.delitem(sys.modules, name)

    assert f"inspect_ai=={tested}" in lock
    with pytest.raises(UsageError, match=rf"stable_task_id_for_eval.*inspect-ai=={tested}"):
        import_module(REGISTRY)
