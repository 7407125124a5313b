"""The words by which programs name actions, rewards, endings and steps of dynamics, in any language."""

import re

LONG_ACTIONS = frozenset(
    {"action", "actions", "act", "torque", "torques", "force", "forces", "push", "thrust", "throttle", "throttles"}
    | {"steer", "steering", "control", "controls", "ctrl", "command", "cmd", "accel", "acceleration", "motor", "gas"}
    | {"brake", "tau", "kick", "voltage", "move", "impulse", "engine", "rudder", "pedal"}
)
SHORT_ACTIONS = frozenset({"a", "u", "f", "act0", "ac"})
"""Names of one letter count only beside what looks like dynamics."""
ACTING = frozenset(
    {"act", "policy", "controller", "choose_action", "select_action", "get_action", "decide", "agent", "pi"}
    | {"compute_action", "action", "control", "torque", "steer"}
)
"""Functions that return an action."""
REWARDS = frozenset(
    {"reward", "rewards", "r", "rew", "ret", "rets", "return", "returns", "total", "tot", "score", "scores", "cost"}
    | {"costs", "fitness", "loss", "wins", "win", "success", "successes", "value", "ep", "R", "T", "G", "c"}
    | {"episode_return", "episode_reward", "total_reward", "cum_reward", "result", "results", "sum"}
)
FEWEST_LETTERS = 3
"""Of a part of a name that says something."""
ENDINGS = frozenset(
    {"done", "terminated", "truncated", "term", "trunc", "crashed", "landed", "won", "alive", "fallen", "over", "goal"}
    | {"reached", "finished", "success", "dead"}
)
STEPS = re.compile(
    r"(?:^|_)(?:step|steps|dynamics|simulate|sim|transition|advance|integrate|integrator|rk4|euler|physics|"
    r"next_state|predict|model|forward|propagate|imagine|env|world)(?:_|$)",
    re.IGNORECASE,
)
"""Names of functions that take a state to the next one."""
TRIGONOMETRY = frozenset({"sin", "cos", "tan", "arctan2", "atan2", "hypot"})


def parts(name: str) -> str:
    """Return a name's last part, without the object that it belongs to and without numbers behind it."""
    return name.rpartition(".")[2].rstrip("0123456789_") or name


def is_long_action(name: str) -> bool:
    """Return whether a name says that it is an action."""
    words = parts(name).lower().split("_")
    return parts(name).lower() in LONG_ACTIONS or words[-1] in LONG_ACTIONS or words[0] in {"action", "torque", "force"}


def is_reward(name: str) -> bool:
    """Return whether a name says that it is a reward, a return or a score."""
    whole = parts(name)
    return whole in REWARDS or not REWARDS.isdisjoint(
        word for word in whole.lower().split("_") if len(word) >= FEWEST_LETTERS
    )


def is_ending(name: str) -> bool:
    """Return whether a name says that an episode is over."""
    return not ENDINGS.isdisjoint(parts(name).lower().split("_"))
