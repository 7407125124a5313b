"""The detectors of the conduct audit; each file finds one kind of conduct, and defines ``DETECTOR``."""
