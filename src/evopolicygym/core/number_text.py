"""Numbers and times as a person reads them, in tables and on lines."""

from evopolicygym.core.decimals import decimals


def number(value: float | None, digits: int | None = None, error: float | None = None) -> str:
    """Return a number for a table, by default with the decimals that its standard error leaves; a dash for none."""
    if value is None:
        return "-"
    return f"{value:,.{decimals(value, error) if digits is None else digits}f}"


def plus_minus(mean: float | None, error: float | None) -> str:
    """Return a mean with its standard error, a dash where that is unknown."""
    return f"{number(mean, error=error)} ± {number(error, error=error)}"


def duration(seconds: float) -> str:
    """Return a time as a person reads it, whole seconds or minutes."""
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours}h{rest // 60:02d}m" if hours else f"{rest // 60}m{rest % 60:02d}s"
