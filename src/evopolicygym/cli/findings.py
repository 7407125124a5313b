"""How findings of a check are printed: a table that grows while one watches, or at once where it is piped."""

from collections.abc import Callable, Iterator, Sequence

from rich.console import Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from evopolicygym.cli.console import err, out
from evopolicygym.core.finding import Finding


def show_findings(
    begun: Callable[[Callable[[str], None]], Iterator[Finding]], name: str, *, as_json: bool
) -> list[Finding]:
    """Take a check's findings and return them; print a table of them, line by line as they come where one can watch."""
    found: list[Finding] = []
    if as_json or not out().is_terminal:
        with err().status(f"checking {name}") as status:
            for one in begun(lambda what: status.update(f"checking {name}: {what}")):
                found.append(one)
                status.update(f"checking {name}: {len(found)} findings, last {one.name}")
        if not as_json:
            out().print(_table(found))
        return found
    waiting = Spinner("dots", f"checking {name}")
    with Live(waiting, console=out()) as live:
        for one in begun(lambda what: waiting.update(text=f"checking {name}: {what}")):
            found.append(one)
            live.update(Group(_table(found), waiting))
        live.update(_table(found))
    return found


def _table(found: Sequence[Finding]) -> Table:
    promised = [one for one in found if one.promised]
    others = f"; {len(found) - len(promised)} not promised" if len(promised) < len(found) else ""
    caption = f"{sum(one.ok for one in promised)} of {len(promised)} passed{others}"
    table = Table(box=None, padding=(0, 1), show_header=False, caption=caption, caption_justify="left")
    titled = any(one.title for one in found)
    for one in found:
        if not one.ok:
            mark = Text(one.verdict or "FAILED", "bold red")
        else:
            mark = Text(one.verdict or "ok", "green" if one.promised else "yellow")
        columns = [Text(one.name), *([Text(one.title)] if titled else []), Text(one.detail, "dim")]
        table.add_row(mark, *columns)
    if titled:
        for column in table.columns[:2]:
            column.no_wrap = True
    return table
