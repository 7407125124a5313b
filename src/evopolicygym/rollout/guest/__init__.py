"""All that the sandbox sees of us. Imports nothing outside itself but the standard library and numpy."""
