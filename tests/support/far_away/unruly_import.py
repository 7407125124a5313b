"""A module of a pack that can't be imported."""

raise ZeroDivisionError("the pack is broken")
