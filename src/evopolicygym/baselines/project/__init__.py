"""What is laid into a project beside a trained network: plain files that need numpy alone."""
