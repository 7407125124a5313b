"""Writes the catalogue, a page for each family of environments: ``python docs/catalogue.py``.

With ``--pictures PACK`` it draws the pictures of a pack anew, which takes the pack itself, Pillow, and for MuJoCo what
docs/use/films.md names. Tasks that look alike share one.
"""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from evopolicygym.analysis.tables.formats import in_markdown, written
from evopolicygym.analysis.tables.packs import ledger_table, tasks_table
from evopolicygym.analysis.tables.table import Table
from evopolicygym.core.pack import Pack, PackTask
from evopolicygym.specs import pack_catalog

CATALOGUE = Path(__file__).parent / "reference" / "environments"
PICTURES = CATALOGUE / "pictures"
WIDTH, HEIGHT, QUALITY = 160, 160, 70
"""Of a picture at the most, in points, and how much JPEG keeps of it."""
ACROSS = 4
"""Pictures in a row."""
STEPS = {"ale": 60, "highway": 5, "vizdoom": 20, "flappy_bird": 12, "pusht": 5, "jumanji": 5}
"""Random actions before a picture, where the first sight of an episode shows little."""
ALIKE = {
    "ale": r"-ram$",
    "minigrid": r"-?(\d+x\d+|S\d+|N\d+|R\d+|L\d+|Dlhb?|Dl|Random|NoLocations|Debug)|-v\d+$|(?<=Loc)S\d.*",
    "robotics": r"Dense|_Diverse_GR?|_(Boolean|Continuous)TouchSensors|_?Rotate\w*|Sparse|-v\d+$",
    "dm_control": r"(?<!dm_control)-[^-]*-v0$|_features|_random_order|_fixed_order|_moveable_base|-v0$",
    "vizdoom": r"(Audio|Notifications|Supreme)|-v\d+$",
}
"""What tells tasks of a pack apart that look alike."""


def page(pack: Pack) -> str:
    """Return the page of a family."""
    parts = [f"# {in_markdown(pack.title)}", *_facts(pack)]
    if shown := list(pictures(pack)):
        said = (
            "Tasks that look alike share a picture: what one of them looks like after a reset and some random actions."
        )
        parts += ["## Pictures", f"{said} Policies see what the table of tasks says, not these.", _gallery(shown)]
    parts += ["## Tasks", _bare(tasks_table(pack))]
    if pack.unavailable:
        parts += ["## What can't be had", _bare(ledger_table([pack]))]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def pictures(pack: Pack) -> Iterator[tuple[str, Path]]:
    """Yield each picture that there is, with what it shows."""
    for what in sorted({alike(pack, task) for task in pack.tasks}):
        if (file := PICTURES / pack.name / f"{what}.jpg").is_file():
            yield what, file


def alike(pack: Pack, task: PackTask) -> str:
    """Return what the tasks are called together that look like a task."""
    return re.sub(ALIKE.get(pack.name, "^$"), "", task.name)


def pages() -> dict[Path, str]:
    """Return each page's text, by where it lies."""
    packs = map(pack_catalog.load, pack_catalog.names())
    return {CATALOGUE / f"{pack.name}.md": page(pack) for pack in packs if pack.tasks}


def _facts(pack: Pack) -> Iterator[str]:
    yield (
        f"{len(pack.tasks)} tasks of the pack `{pack.name}`. [Its check](../../measure/packs.md#{pack.name}) says "
        "whether they repeat, their speeds and random play. This page is written by `python docs/catalogue.py`; "
        f"`evopolicygym packs show {pack.name}` prints the same facts."
    )
    beside = f"`pip install 'evopolicygym[{pack.extra}]'`" if pack.extra else "comes with evopolicygym"
    own = f"`evopolicygym packs install {pack.name}`: " + ", ".join(pack.requirements)
    yield f"- Installed by: {beside if pack.is_beside_us else own}\n- Licence: {in_markdown(pack.licence)}"


def _gallery(shown: list[tuple[str, Path]]) -> str:
    cells = [f"![{what}]({file.relative_to(CATALOGUE).as_posix()})<br>{in_markdown(what)}" for what, file in shown]
    rows = [cells[at : at + ACROSS] for at in range(0, len(cells), ACROSS)]
    empty = "|  " * ACROSS + "|\n" + "| --- " * ACROSS + "|\n"
    return empty + "".join(f"| {' | '.join([*row, *[''] * (ACROSS - len(row))])} |\n" for row in rows)


def _bare(table: Table) -> str:
    """Return a table without its title."""
    return written([table], "markdown").partition("\n\n")[2]


def draw(pack: Pack) -> None:
    """Draw one picture of each kind of task of a pack, where its simulator draws any; print why where it doesn't."""
    from io import BytesIO

    from PIL import Image

    from evopolicygym.core.errors import EvoPolicyGymError
    from evopolicygym.environments.derived import pack_spec
    from evopolicygym.environments.still import still

    for what, task in {alike(pack, task): task for task in reversed(pack.tasks)}.items():
        file = PICTURES / pack.name / f"{what}.jpg"
        if file.is_file():
            continue
        try:
            picture = Image.fromarray(still(pack_spec(pack, task), STEPS.get(pack.name, 1)))
        except EvoPolicyGymError as error:
            print(f"{task.name}: {str(error)[-200:]}")
            continue
        picture.thumbnail((WIDTH, HEIGHT), Image.Resampling.LANCZOS)
        content = BytesIO()
        picture.convert("RGB").save(content, "JPEG", quality=QUALITY, optimize=True)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.getvalue())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", metavar="PACK", action="append", default=[], help="draw those that are missing")
    for name in parser.parse_args().pictures:
        draw(pack_catalog.load(name))
    CATALOGUE.mkdir(exist_ok=True)
    for place, text in pages().items():
        place.write_text(text, encoding="utf-8")
