"""A model that says what a script has it say: for trying an agent offline, without a key and free of charge.

``server`` listens on loopback, ``answers`` puts a text into each of the four formats, ``conversation`` has an agent
that has a shell run commands.
"""
