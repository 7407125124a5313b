"""Playing on other machines: what a node is, what it is sent, and whether it computes the same."""
