"""Trackers: a run's points in Trackio, Weights & Biases, TensorBoard or MLflow, beside its record and after it."""
