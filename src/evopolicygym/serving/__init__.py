"""Serving on this machine's loopback: the server, who is asking, a bounded body. What is answered lies elsewhere."""
