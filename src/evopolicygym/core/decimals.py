"""How many decimals of a figure tell something: of a mean by its standard error, of a lone number by its size."""

import math

FEWEST, MOST = 2, 6
OF_ERROR, OF_VALUE = 2, 4
"""Significant digits that are shown of a standard error, and of a number whose error is unknown or nothing."""


def decimals(value: float, standard_error: float | None = None) -> int:
    """Return with how many decimals a number is shown: 4 of 0.9871, 5 of 0.98713 ± 0.00021, 2 of -98.22 ± 3.84."""
    known = standard_error is not None and math.isfinite(standard_error) and standard_error > 0
    size, digits = (standard_error, OF_ERROR) if known else (abs(value), OF_VALUE)
    if not size or not math.isfinite(size):
        return FEWEST
    return min(max(digits - 1 - math.floor(math.log10(size)), FEWEST), MOST)
