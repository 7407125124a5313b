"""The model proxy: the only route from an agent's sandbox to its model."""
