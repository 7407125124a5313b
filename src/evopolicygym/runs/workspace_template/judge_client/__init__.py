"""The parts of the judge's client that work on the files of the workspace, without the judge."""
