"""A console for texts of records: nothing in them acts on the terminal, whoever wrote them.

Escapes and direction marks are spelled out; styles and colours that the program itself gives pass.
"""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from evopolicygym.core.text import printable_lines


class PrintingConsole(Console):
    """A console for texts that come from records."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as any console does, every text printable."""
        for segment in super().render(renderable, options):
            text = segment.text
            as_it_is = segment.control or text == "\n" or text.isprintable()
            yield segment if as_it_is else segment._replace(text=printable_lines(text))
