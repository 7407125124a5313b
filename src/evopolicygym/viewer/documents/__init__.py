"""The content of pages as JSON documents: pure functions of records."""
