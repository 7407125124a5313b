"""What a terse text may not hold: numbers, equations, units, advice."""

import re

_SIZE = re.compile(r"\b\d+\u00d7\d+\b")
"""How many elements an image has: the one thing that may stand in digits."""
_NUMBERS_AND_EQUATIONS = re.compile(r"[\d=+*/^²³±√·%<>≤≥≈∞|\[\]]|[\u0370-\u03ff]|\b(?:exp|min|max|abs|sqrt|clip)\w*\(")
_UNITS = re.compile(r"(?<!')\b(?:m|kg|s|ms|rad|deg|N|Hz|metres?|degrees?|radians?)\b")
_ADVICE = re.compile(
    r"\b(?:swing\w*|build up|momentum|energy|pump\w*|should|must|try|avoid|better|best|worst|trick|hint|optimal"
    r"|controller|gains?|feedback|plan(?:s|ning)?|remember|search\w*|explor\w*|because|so that|needs?|has to"
    r"|have to|too weak|lag|oscillat\w*|balance)\b",
    re.IGNORECASE,
)


def said_too_much(text: str) -> list[str]:
    """Return what stands in a text that a terse one may not hold; nothing where it is one."""
    without_sizes = _SIZE.sub("", text)
    found = [*_NUMBERS_AND_EQUATIONS.findall(without_sizes), *_UNITS.findall(without_sizes)]
    return [*found, *_ADVICE.findall(text)]
