"""Assembly: a run from its parts, from opening to score."""
