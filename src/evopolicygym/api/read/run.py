"""``evopolicygym.load_run``: a run and its tables."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evopolicygym.analysis.run_tables import RunTables, data_frame, tables_of
from evopolicygym.core.directories import DEFAULT_RUNS
from evopolicygym.core.text import number, plus_minus
from evopolicygym.records.checked import look_at_run
from evopolicygym.records.reader import find_run
from evopolicygym.records.rows import EditRow, EpisodeRow
from evopolicygym.records.run_document import held_out_returns, summary_of

if TYPE_CHECKING:
    import pandas as pd

    from evopolicygym.api.read.submission import Submission

FIGURE = "learning_curve"
"""The figure of a run in a notebook."""
SHOWN = ("submission", "status", "episodes", "train_mean", "validation_mean", "is_selected")
"""Columns of the table of submissions in a notebook."""


@dataclass(frozen=True)
class Run:
    """A run, read from its record on first access. ``refreshed`` reads it again."""

    path: Path
    """The run directory."""

    @cached_property
    def _run(self) -> RunTables:
        return tables_of(look_at_run(self.path))

    @property
    def id(self) -> str:
        """The run's id, such as ``20261121-060000-ab12``."""
        return self._run.row.run_id

    @property
    def task(self) -> str:
        """The environment's name."""
        return self._run.row.task

    @property
    def agent(self) -> str:
        """What tables call the agent: its label, else its name, with model and effort."""
        return self._run.row.agent

    @property
    def model(self) -> str | None:
        """The model that the agent uses; None if it was given none."""
        return self._run.row.model

    @property
    def options(self) -> Mapping[str, Any]:
        """The agent's extra options."""
        return self._run.row.options

    @property
    def budget(self) -> int:
        """The train episodes that the agent may spend; ``summary["spent"]`` are those that it has spent."""
        return self._run.row.budget

    @property
    def is_finished(self) -> bool:
        """Whether the run is complete, including hidden cases."""
        return self._run.record.state.finished is not None

    @property
    def score(self) -> float | None:
        """The mean held-out return of the selected checkpoint; None if there is none yet."""
        return self._run.row.score

    @property
    def standard_error(self) -> float | None:
        """The score's standard error over held-out cases; None if unknown."""
        return self._run.row.score_standard_error

    @property
    def success_rate(self) -> float | None:
        """The share of held-out episodes that succeeded, from 0 to 1; None if success is undefined."""
        return self._run.row.success_rate

    @property
    def held_out_returns(self) -> tuple[float, ...]:
        """The return of each held-out case, in the split's order; empty if there are none yet."""
        return held_out_returns(self._run.record.state)

    @property
    def selected_submission(self) -> int | None:
        """The submission whose checkpoint was selected."""
        return self._run.row.selected_submission

    @property
    def agent_error(self) -> str | None:
        """How the agent failed in its last turn, such as a function's exception; None if it didn't."""
        return summary_of(self._run.record).agent_error

    @property
    def cost(self) -> float | None:
        """The model's cost in US dollars, counted by the proxy or reported by the agent's tool; None if unknown."""
        return summary_of(self._run.record).cost

    @property
    def cost_is_lower_bound(self) -> bool:
        """Whether ``cost`` misses generations whose usage is unknown."""
        return summary_of(self._run.record).cost_is_lower_bound

    @property
    def summary(self) -> dict[str, Any]:
        """The run's row of the table of runs, by column."""
        return asdict(self._run.row)

    @cached_property
    def submissions(self) -> "list[Submission]":
        """A row for each submission; a column is an attribute and a key: ``row.status``, ``row["status"]``."""
        from evopolicygym.api.read.submission import Submission  # imported late: it reads programs

        return [Submission(row, self._run.record) for row in self._run.submissions]

    @property
    def edits(self) -> list[EditRow]:
        """A row for each submission as an edit: its parent and files, what came before it, and what came of it."""
        return list(self._run.edits())

    @property
    def episodes(self) -> list[EpisodeRow]:
        """A row for each episode, hidden ones included once played."""
        return list(self._run.episodes)

    def to_pandas(self, table: str = "submissions") -> "pd.DataFrame":
        """Return a table of the run as a ``pandas.DataFrame``.

        Args:
            table: ``"submissions"``, ``"edits"``, ``"episodes"``, ``"steps"``; ``"runs"`` and ``"tasks"`` for the run
                itself and its task, in one row.

        Raises:
            UnknownName: The table is unknown.
            MissingPackage: pandas is not installed.

        Examples:
            >>> evopolicygym.load_run("latest").to_pandas()[["submission", "train_mean", "is_selected"]]
        """
        return data_frame(table, [self._run])

    def refreshed(self) -> "Run":
        """Read the run again."""
        return Run(self.path)

    def __repr__(self) -> str:
        score = "no score" if self.score is None else plus_minus(self.score, self.standard_error)
        state = "" if self.is_finished else ", not finished"
        return f"<Run {self.id}: {self.task}, {self.agent}, {score}{state}>"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the score, a table of submissions and, with matplotlib, the learning curve."""
        head = "".join(f"<th>{escape(name.replace('_', ' '))}</th>" for name in SHOWN)
        rows = "".join(
            f"<tr>{''.join(f'<td>{_cell(row[name])}</td>' for name in SHOWN)}</tr>" for row in self.submissions
        )
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        return f"<p>{escape(repr(self)[1:-1])}</p>{table}{self._figure()}"

    def _figure(self) -> str:
        """Return the run's learning curve as inline SVG; empty without matplotlib or if the run is unfinished."""
        if not self.is_finished or find_spec("matplotlib") is None:
            return ""
        from evopolicygym.analysis.drawing.canvas import figure_bytes
        from evopolicygym.analysis.drawing.figure import FIGURES
        from evopolicygym.analysis.report_data import find
        from evopolicygym.analysis.results import Results, result_of
        from evopolicygym.records.checked import open_run

        drawing = FIGURES.load(FIGURE)
        results = Results((result_of(open_run(self.path)),))
        svg = figure_bytes(drawing.draw(find(results, diagnostics=drawing.needs)), "svg").decode()
        return svg[svg.index("<svg") :]


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    return escape(number(value) if isinstance(value, float) or value is None else str(value))


def load_run(run: str | Path = "latest", runs: str | Path = DEFAULT_RUNS) -> Run:
    """Return a run that was or is being played.

    Args:
        run: Its directory, its id or the beginning of it, or ``"latest"``.
        runs: The directory in which ids are looked up.

    Raises:
        UsageError: The run is unknown or ambiguous.
        RecordError: Its record is damaged.

    Examples:
        >>> evopolicygym.load_run("latest").score
    """
    return Run(find_run(Path(run), Path(runs)))
