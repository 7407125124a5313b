"""Run-directory I/O."""
