"""The isolation backends. A file defines ``Backend``; its name is the name of the level."""
