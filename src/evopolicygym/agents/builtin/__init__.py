"""The agents that ship. A file defines ``make(config) -> Agent`` and ``ABOUT``; its name is the agent's."""
