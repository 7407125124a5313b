"""The agent that has the library GEPA evolve a policy's source: reflection on cases, and a Pareto front over them.

The library is the released one, in our own process: candidates are text to it and run nowhere but in the judge's
sandbox. ``model_search.py`` gives it its context.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from evopolicygym.agents.base import About, Model
from evopolicygym.agents.kit.model_search import ModelSearchAgent, Outcome, SearchContext, make_model_search
from evopolicygym.core.agent import AgentConfig

ABOUT = About("the library GEPA: reflection on cases", Model.NEEDED, extra="gepa", imports=("gepa", "httpx2"))
EPISODES = 8
"""Cases that the Pareto front is over: fewer are hardly a front, more leave few candidates of 128 episodes."""
MINIBATCH = 4
"""Cases on which a new candidate must beat its parent first: half of them, so that what is worse costs half."""
PART = "policy.py"
PROMPT = """<brief>

This is the policy as it is now:
```python
<curr_param>
```

It was played on these starts of the environment:
<side_info>

Work out why the returns are not higher, then write a better policy.py: the whole file, within one ``` block."""
"""GEPA's own template speaks of instructions to an assistant; this one has the same two places."""


def make(config: AgentConfig) -> ModelSearchAgent:
    """Return the agent; raise ``UsageError`` or ``MissingExtra``."""
    return make_model_search(config, search, EPISODES)


def search(context: SearchContext) -> None:
    """Have GEPA search until its context ends it."""
    import gepa

    gepa.optimize(
        seed_candidate={PART: context.evaluator.starter},
        trainset=context.cases,
        valset=context.cases,  # the judge's own validation is what guards against fitting these
        adapter=Adapter(context),
        reflection_lm=lambda prompt: context.ask(_text(prompt)),
        reflection_prompt_template=PROMPT.replace("<brief>", context.brief),
        reflection_minibatch_size=min(MINIBATCH, len(context.cases)),
        skip_perfect_score=False,  # a return has no best value that is known
        stop_callbacks=lambda _state: context.ended is not None,
        logger=_Log(context),
        seed=context.workspace.seed,
        raise_on_exception=True,
    )


class Adapter:
    """What GEPA asks about candidates, answered by the search's context."""

    propose_new_texts = None

    def __init__(self, context: SearchContext) -> None:
        self._context = context

    def evaluate(self, batch: list[int], candidate: dict[str, str], capture_traces: bool = False) -> Any:  # noqa: ANN401, FBT001, FBT002 - the library's contract
        """Play a candidate on cases."""
        from gepa import EvaluationBatch

        outcomes = self._context.play(candidate[PART], batch)
        scores = [outcome.value for outcome in outcomes]
        return EvaluationBatch(outputs=outcomes, scores=scores, trajectories=outcomes if capture_traces else None)

    def make_reflective_dataset(
        self,
        _candidate: dict[str, str],
        eval_batch: Any,  # noqa: ANN401 - the library's
        components_to_update: list[str],
    ) -> Mapping[str, Sequence[Mapping[str, str]]]:
        """Tell of each case what the model is to know."""
        outcomes: Sequence[Outcome] = eval_batch.trajectories
        return {name: [{"Feedback": outcome.text} for outcome in outcomes] for name in components_to_update}


class _Log:
    """Where GEPA's words go."""

    def __init__(self, context: SearchContext) -> None:
        self._context = context

    def log(self, message: str) -> None:
        self._context.transcript.write("library", text=str(message))


def _text(prompt: object) -> str:
    """Return a prompt as one text; GEPA sends messages only where there are images."""
    return prompt if isinstance(prompt, str) else str(prompt)
