"""What pages show, as JSON documents: pure functions over records."""
