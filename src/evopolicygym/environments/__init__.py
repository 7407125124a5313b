"""Creates, resets and steps the environments that specs declare."""
