"""``GET /task`` and ``GET /info``: what an agent is shown before it begins. No seed, no anchor, no path of the host."""

from dataclasses import asdict
from typing import Any

from evopolicygym.core.agent import NO_RULES, AgentRules
from evopolicygym.core.cases import PROTOCOL_VERSION
from evopolicygym.core.event import SCHEMA_VERSION, RunOpened
from evopolicygym.core.rollout import ExecutorInfo
from evopolicygym.core.run import RunState, Stage
from evopolicygym.core.spaces import Box, Discrete, Space, from_schema
from evopolicygym.core.submission import FILMS_A_SUBMISSION
from evopolicygym.core.task import EnvironmentSpec, Memory, Task, TaskInterface, TaskText
from evopolicygym.core.world import world_text
from evopolicygym.records.interface_text import PERMUTED_NOTE, changes_text, plain_text
from evopolicygym.records.paths import FILM, SHEET

CONTRACT = """\
`system/policy.py` defines

```python
class Policy:
    def __init__(self, obs_space: dict, action_space: dict, env_meta: dict): ...
    def reset(self, episode_index: int) -> None: ...
    def act(self, obs): ...
```

- Other modules, data and weights may stand beside it. While it plays, nothing on disk is writable.
- Every episode has a fresh process, a fresh `Policy` and a fresh environment: nothing is carried over.
- Arrays arrive as numpy arrays, Discrete observations as int, composites as dict or tuple.
- Numbers outside a Box are clipped. What can't be read as an action, an exception, a limit reached: the policy has
  failed, and uniform random actions play the episode to its natural end. The return stands.
- `random` and `numpy.random` are seeded before `reset`; the same checkpoint on the same case plays the same episode.
"""

RULES = """\
- Experience comes from submissions alone. Don't look for, install or rebuild the simulator, from memory either, to play
  episodes outside the budget. Don't look for hidden cases or the judge's files.
- Allowed: a model that you or the policy fit to your own feedback, and a policy that plans while it plays, with such a
  model or with known physics.
"""
SELECTION_RULE = "best mean validation return; a tie goes to the latest submission"


def info(state: RunState, executor_info: ExecutorInfo, rules: AgentRules = NO_RULES) -> dict[str, Any]:
    """Return what ``GET /info`` answers."""
    task, opened = state.opened.task, state.opened
    environment = opened.shown_environment
    allowed = {name.partition("==")[0] for name in executor_info.allowed_imports}
    return {
        "state": {
            "remaining_budget": state.remaining,
            "n_submits": len(state.submissions),
            "remaining_submissions": state.submissions_left,
            "remaining_films": state.films_left,
            "is_finalized": state.stage is not Stage.OPEN,
        },
        "episode_budget": state.budget,
        "min_episodes_per_submit": task.budget.min_per_submission,
        "max_episodes_per_submit": task.budget.most,
        "max_submissions": task.budget.max_submissions,
        "max_films": task.films,
        "max_films_per_submit": min(task.films, FILMS_A_SUBMISSION),
        "selection": {"validation_cases": task.validation_cases, "rule": SELECTION_RULE},
        "env_meta": {
            "env": environment.name,
            "n_env_instances": task.train_cases,
            "max_episode_steps": environment.max_steps,
            "obs_space": dict(opened.observation_schema),
            "action_space": dict(opened.action_schema),
            "reward_components": list(environment.reward_components),
        },
        "resource_limits": {**asdict(task.limits), "processes": 1},
        "agent_limits": _agent_limits(state, rules),
        "task_text": task.text.value,
        **({} if task.interface is TaskInterface.STANDARD else {"interface": task.interface.value}),
        "feedback_profile": task.feedback.value,
        "finish_allowed": task.finish_allowed,
        "allowed_imports": list(executor_info.allowed_imports),
        "denied_imports": [name for name in ("gymnasium", *environment.packages) if name not in allowed],
        "protocol_version": PROTOCOL_VERSION,
        "schema_version": SCHEMA_VERSION,
    }


def _agent_limits(state: RunState, rules: AgentRules) -> dict[str, Any]:
    """Return what the agent may use, null where there is no limit, and what it has used as far as that is counted."""
    allowance, used = state.opened.agent.allowance, state.used
    return {
        "max_turns": rules.max_turns if allowance.turns is None else allowance.turns,
        "max_time_s": allowance.seconds,
        "max_cost_usd": allowance.cost,
        "max_tokens": allowance.tokens,
        "max_quiet_s": rules.quiet_s,
        "turns_used": state.turns - state.pauses,
        "time_used_s": round(used.seconds, 1),
        "time_left_s": None if allowance.seconds is None else round(max(0.0, allowance.seconds - used.seconds), 1),
        "cost_used_usd": round(used.cost, 4),
        "tokens_used": used.tokens,
    }


def task_text(state: RunState, *, has_workspace: bool = True) -> str:
    """Return what ``GET /task`` answers, as markdown; an agent without a workspace has no ``./judge`` to ask."""
    task, environment = state.opened.task, state.opened.shown_environment
    sections = {
        "Objective": environment.objective,
        "Interface": PERMUTED_NOTE if task.interface is TaskInterface.PERMUTED else "",
        "Observation": _side_text(state.opened, "observation", environment.observation),
        "Action": _side_text(state.opened, "action", environment.action),
        "World": _world_text(task),
        "Reward": environment.reward,
        "Success": environment.success.meaning if environment.success else "",
        "Termination": _termination_text(environment),
        "Budget": _budget_text(task),
        "Films": _films_text(task.films),
        "Policy": CONTRACT + _packages_text(task.policy_packages, has_workspace=has_workspace),
        "Rules": RULES,
    }
    parts = (f"## {title}\n\n{text.strip()}\n" for title, text in sections.items() if text)
    return f"# Task: {environment.name}\n\n" + "\n".join(parts)


def _termination_text(environment: EnvironmentSpec) -> str:
    """Return how episodes end, with the limit on steps where the description doesn't name it."""
    described = environment.termination.strip()
    if f"truncated after {environment.max_steps} steps" in " ".join(described.lower().split()):
        return described
    return f"{described} Truncated after {environment.max_steps} steps."


def _budget_text(task: Task) -> str:
    if task.memory is Memory.NONE:
        return _sample_text(task)
    finish = " You may finish before that." if task.finish_allowed else ""
    most = task.budget.max_submissions
    in_all = "" if most is None else f" and at most {most} submission{'s' * (most != 1)}"
    spent = "" if most is None else " or the last submission is made"
    return (
        f"{task.budget.episodes} train episodes, {task.budget.min_per_submission} to {task.budget.most} in a submission"
        f"{in_all}, on train cases 0 to {task.train_cases - 1} of your choice; a case may be named again."
        f"{finish} When the budget is spent{spent}, every submission that could be loaded plays the same "
        f"{task.validation_cases} hidden validation cases. The one with the best mean return is selected (a tie goes "
        f"to the latest), and its mean return on {task.held_out_cases} other hidden cases is the score."
    )


def _sample_text(task: Task) -> str:
    return (
        f"You make one submission, of {task.budget.min_per_submission} to {task.budget.most} train episodes on train "
        f"cases 0 to {task.train_cases - 1} of your choice; your work ends with it. Others work on the same task, each "
        f"from the start and without knowing of each other. Every submission that could be loaded plays the same "
        f"{task.validation_cases} hidden validation cases. The one with the best mean return is selected (a tie goes "
        f"to the latest), and its mean return on {task.held_out_cases} other hidden cases is the score."
    )


def _packages_text(packages: tuple[str, ...], *, has_workspace: bool) -> str:
    named = "".join(f", {name}" for name in packages)
    lies = "; it lies in `packages/`" if packages else ""
    versions = " Versions stand in `./judge info`." if has_workspace else ""
    return f"- It can import the standard library, numpy and scipy{named}{lies}.{versions}\n"


def _films_text(films: int) -> str:
    if not films:
        return ""
    return (
        f"{films} of your train episodes can be filmed, at most {FILMS_A_SUBMISSION} a submission: name their cases in "
        f'`"films"`, such as `{{"env_instances": "0-7", "films": [2, 5]}}`. The feedback has them as `{FILM}`, a frame '
        f"for the reset and one for each step, with `{SHEET}`, some of the frames on one picture."
    )


def _world_text(task: Task) -> str:
    standard = task.interface is TaskInterface.STANDARD
    with_numbers = standard and task.text is TaskText.FULL  # numbers are those of the standard interface
    return world_text(task.environment.world, with_numbers=with_numbers, with_names=standard)


def _side_text(opened: RunOpened, side: str, meanings: tuple[str, ...]) -> str:
    """Return what is said of observations or of actions."""
    space = from_schema(opened.observation_schema if side == "observation" else opened.action_schema)
    with_bounds = opened.task.text is TaskText.FULL
    match opened.task.interface, space:
        case TaskInterface.ANONYMOUS, _:
            return plain_text(space)
        case TaskInterface.PERMUTED, Discrete(labels=named) | Box(fields=named) if named:
            return "Yours:\n\n" + _space_text(space, named, with_bounds=with_bounds)
        case TaskInterface.PERMUTED, _:
            words = _space_text(space, meanings, with_bounds=False)
            return f"The standard interface:\n\n{words}\n\nYours:\n\n{changes_text(opened.interface, side)}"
    return _space_text(space, meanings, with_bounds=with_bounds)


def _space_text(space: Space, meanings: tuple[str, ...], *, with_bounds: bool) -> str:
    match space:
        case Discrete(n=n, start=start) if len(meanings) == n:
            return "\n".join(f"- {start + value}: {meaning}" for value, meaning in enumerate(meanings))
        case Box(shape=(size,)) if len(meanings) == size:
            low, high = space.limits()
            ends = [f" ({least:g} to {most:g})" for least, most in zip(low.tolist(), high.tolist(), strict=True)]
            bounds = ends if with_bounds else [""] * size
            return "\n".join(f"- [{i}] {meaning}{bounds[i]}" for i, meaning in enumerate(meanings))
        case _:
            return "\n".join(f"- {meaning}" for meaning in meanings)
