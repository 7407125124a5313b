"""What the judge's client does with the files of a workspace, by which it asks nobody."""
