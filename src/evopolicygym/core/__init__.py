"""The words: frozen dataclasses and pure functions. Standard library and numpy only; imports nothing of ours."""
