"""What is looked for in what an agent did: each file is one kind of finding, and defines ``DETECTOR``."""
