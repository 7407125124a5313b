"""The only code of this package in a policy's sandbox. It imports itself, the standard library and numpy."""
