"""Playing on the nodes of a cluster."""
