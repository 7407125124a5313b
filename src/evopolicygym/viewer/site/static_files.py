"""The viewer's static files, for the server and for pages without a server."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

TYPES: Mapping[str, str] = MappingProxyType({
    ".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
})  # fmt: skip


@cache
def static_files() -> Mapping[str, bytes]:
    """Return the static files by name."""
    folder = files("evopolicygym.viewer") / "static"
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name.endswith(tuple(TYPES))}
