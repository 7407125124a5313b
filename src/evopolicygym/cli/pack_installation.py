"""Installing packs, with progress on the terminal."""

from collections.abc import Iterable

from rich.status import Status
from rich.text import Text

from evopolicygym.cli.interruption import interruptible
from evopolicygym.cli.output import err, out
from evopolicygym.core.pack import Pack


def install_packs(packs: Iterable[Pack]) -> None:
    """Install packs one after another and print where each lies; raise ``UsageError`` at the first that fails."""
    from evopolicygym.packs.installer import install

    for pack in packs:
        with interruptible(), err().status(f"{pack.name}: beginning") as status:

            def report(what: str, pack: Pack = pack, status: Status = status) -> None:
                status.update(f"{pack.name}: {what}")
                if not err().is_terminal:
                    err().print(Text(f"{pack.name}: {what}"), soft_wrap=True)

            found = install(pack, report)
        out().print(Text(f"{pack.name} is installed: {found.size_mb} MB in {found.directory}"), soft_wrap=True)
