"""The verbs of the command line, a file each: a folder is a heading of ``--help``, a file's first line its summary."""
