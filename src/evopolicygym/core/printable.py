"""Untrusted text as text: what a terminal, a browser or a table would act on is spelled out."""


def printable(text: str) -> str:
    """Return a text in one line with every character that isn't printed (escapes, direction marks) spelled out.

    Characters to which a format of tables gives a meaning (markup, HTML, LaTeX) stay: each writer escapes its own.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _spelled(char) for char in text)


def printable_lines(text: str) -> str:
    """Return a text as ``printable`` does, but for the ends of its lines and tabs, which stay."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(char if char in "\n\t" or char.isprintable() else _spelled(char) for char in text)


def well_formed(text: str) -> str:
    """Return a text as UTF-8 can hold it: halves of surrogate pairs, which Python can hold, are spelled out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _spelled(char: str) -> str:
    return char.encode("unicode_escape", "backslashreplace").decode("ascii") if char != "\xa0" else " "
