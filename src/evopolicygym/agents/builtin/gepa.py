"""The agent ``gepa``: the library GEPA evolves a policy's source by reflection on cases and a Pareto front over them.

The library is unmodified and runs in this process: it handles candidates as text, and they run only where the judge
plays policies.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from evopolicygym.agents.base import About, Model
from evopolicygym.agents.kit.model_search import ModelSearchAgent, Outcome, SearchContext, make_model_search
from evopolicygym.core.agent import AgentConfig

ABOUT = About("the library GEPA: reflection on cases", Model.NEEDED, extra="gepa", imports=("gepa", "httpx2"))
EPISODES = 8
"""Cases of the Pareto front: fewer hardly make a front, more leave few candidates from 128 episodes."""
MINIBATCH = 4
"""Cases on which a new candidate must first beat its parent: half of all, so that a worse one costs half."""
PART = "policy.py"
PROMPT = """<brief>

This is the current policy:
```python
<curr_param>
```

Its results on some initial states of the environment:
<side_info>

Work out why the returns are not higher, then write a better policy.py: the complete file, in one ``` block."""
"""Replaces GEPA's template, which is about instructions to an assistant; with the same placeholders."""


def make(config: AgentConfig) -> ModelSearchAgent:
    """Return the agent; raise ``UsageError`` or ``MissingExtra``."""
    return make_model_search(config, search, EPISODES)


def search(context: SearchContext) -> None:
    """Let GEPA search until the context ends the search."""
    import gepa

    gepa.optimize(
        seed_candidate={PART: context.evaluator.starter},
        trainset=context.cases,
        valset=context.cases,  # the judge's validation cases guard against overfitting these
        adapter=Adapter(context),
        reflection_lm=lambda prompt: context.ask(_text(prompt)),
        reflection_prompt_template=PROMPT.replace("<brief>", context.brief),
        reflection_minibatch_size=min(MINIBATCH, len(context.cases)),
        skip_perfect_score=False,  # the highest possible return is unknown
        stop_callbacks=lambda _state: context.ended is not None,
        logger=_Log(context),
        seed=context.workspace.seed,
        raise_on_exception=True,
    )


class Adapter:
    """Evaluates candidates for GEPA."""

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
        """Return the description of each case for the model."""
        outcomes: Sequence[Outcome] = eval_batch.trajectories
        return {name: [{"Feedback": outcome.text} for outcome in outcomes] for name in components_to_update}


class _Log:
    """Writes GEPA's log to the transcript."""

    def __init__(self, context: SearchContext) -> None:
        self._context = context

    def log(self, message: str) -> None:
        self._context.transcript.write("library", text=str(message))


def _text(prompt: object) -> str:
    """Return a prompt as text; GEPA sends messages only for images."""
    return prompt if isinstance(prompt, str) else str(prompt)
