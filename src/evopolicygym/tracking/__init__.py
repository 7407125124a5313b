"""Trackers: runs logged to Trackio, Weights & Biases, TensorBoard or MLflow."""
