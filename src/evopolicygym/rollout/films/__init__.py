"""Films of recorded episodes: ordered, rendered in a process of their own, encoded."""
