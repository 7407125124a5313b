"""Registers every task with Gymnasium as ``evopolicygym/<task>``, once this package and Gymnasium are both imported.

Gymnasium has no plug-ins, and this package imports Gymnasium only where it plays. Names alone are read here, so that
an import stays quick; a task that isn't installed says so when it is made.
"""

import tomllib
from collections.abc import Iterator
from importlib.resources import files

from gymnasium.envs.registration import EnvSpec, registry

from evopolicygym.core.pack import NAMESPACE, task_name

ENTRY_POINT = "evopolicygym.environments.task_environment:TaskEnvironment"
SUFFIX = ".toml"


def task_spec(name: str, argument: str = "") -> EnvSpec:
    """Return Gymnasium's registration of a task; ``argument`` is the path of a spec's file, if it has one."""
    return EnvSpec(f"{NAMESPACE}/{name}", ENTRY_POINT, disable_env_checker=True, kwargs={"name": argument or name})


def register_ids() -> None:
    """Register the shipped tasks; names that are registered already are left alone."""
    for spec in map(task_spec, _names()):
        registry.setdefault(spec.id, spec)


def _names() -> Iterator[str]:
    """Yield the names of shipped specs, and of the tasks of shipped packs."""
    specs = files("evopolicygym.specs")
    for file in specs.iterdir():
        name, suffix, _ = file.name.rpartition(SUFFIX)
        if suffix and name != "earlier_fingerprints":
            yield name
    for file in (specs / "packs").iterdir():
        if file.name.endswith(SUFFIX):
            for group in tomllib.loads(file.read_text(encoding="utf-8")).get("tasks", ()):
                yield from (task_name(gymnasium_id, group.get("variant", "")) for gymnasium_id in group["ids"])
