"""Data out: the four tables of runs, and files of them for other programs. Imports nothing of the making wing."""
