"""A console that prints what a terminal would act on (escapes, direction marks) spelled out, whoever wrote it.

Styles and colours that the program itself gives pass.
"""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from evopolicygym.core.printable import printable_lines


class PrintingConsole(Console):
    """A console for texts that come from records."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as any console does, every text printable."""
        for segment in super().render(renderable, options):
            text = segment.text
            yield segment if segment.control or text.isprintable() else segment._replace(text=printable_lines(text))
