"""The viewer's pages over HTTP, and as files."""
