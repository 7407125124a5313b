"""Requests to a model that no log mentions: the libraries that send them would log addresses, and answers' headers."""

import logging
from contextvars import ContextVar

LOGGERS = ("httpx2", "httpcore2.connection", "httpcore2.http11")
"""What the client logs by, for the connections that are used here."""
_silent = ContextVar("silent", default=False)


def keep_silent() -> None:
    """Have nothing logged of what the task that calls this sends from here on; other tasks and threads log as ever."""
    _silent.set(True)


def _is_of_others(_record: logging.LogRecord) -> bool:
    return not _silent.get()


for name in LOGGERS:
    logging.getLogger(name).addFilter(_is_of_others)
