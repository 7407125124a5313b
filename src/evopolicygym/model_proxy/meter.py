"""Reads usage out of an answer while it passes by, and never stands in its way.

What the numbers mean is described in ``usage.py``.
"""

import json
from typing import Any

from evopolicygym.model_proxy.inspection import is_too_fine
from evopolicygym.model_proxy.usage import Usage, read_usage
from evopolicygym.model_proxy.wire import Wire

LONGEST = 16 << 20
"""Bytes of an event, or of a whole answer that is none of events, that are kept to be read."""
NAME_LENGTH = 120


class AnswerMeter:
    """Watches one answer."""

    def __init__(self, wire: Wire, content_type: str) -> None:
        self._wire = wire
        self._streamed = content_type.partition(";")[0].strip().lower() == "text/event-stream"
        self._kept = bytearray()
        self._dropping = False
        self._fields: dict[str, Any] = {}
        self._final = False
        self.model = ""
        """The model that says it answered."""
        self.n_bytes = 0
        """Of the answer."""

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the answer."""
        self.n_bytes += len(chunk)
        if not self._streamed:
            self._keep(chunk)
            return
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            self._keep(line)
            self._read_line()
        self._keep(rest)

    def finish(self, *, whole: bool) -> Usage:
        """Return what was shown; what a server counts while it goes is no count where the answer broke off."""
        if self._streamed:
            self._read_line()
        elif not self._dropping:
            self._read(bytes(self._kept))
        usage = read_usage(self._wire, self._fields)
        if whole or self._final:
            return usage
        return Usage(usage.input, usage.cached_input, usage.cache_write)

    def _keep(self, data: bytes) -> None:
        if self._dropping or len(self._kept) + len(data) > LONGEST:
            self._dropping = True
            self._kept.clear()
        else:
            self._kept += data

    def _read_line(self) -> None:
        line, self._dropping = bytes(self._kept), False
        self._kept.clear()
        if line.startswith(b"data:") and (b"sage" in line or b"odel" in line):
            self._read(line[5:])

    def _read(self, text: bytes) -> None:
        if is_too_fine(text):
            return
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            return
        # A Gemini answer that is streamed without events is one list of documents.
        for one in document if isinstance(document, list) else [document]:
            if isinstance(one, dict):
                self._take(one)

    def _take(self, document: dict[str, Any]) -> None:
        inner = document.get("response") if self._wire is Wire.RESPONSES else document.get("message")
        for holder in (document, inner):
            if not isinstance(holder, dict):
                continue
            model = holder.get("model") or holder.get("modelVersion")
            if isinstance(model, str):
                self.model = model[:NAME_LENGTH]
            usage = holder.get("usage") or holder.get("usageMetadata") or self._beside_a_choice(holder)
            if isinstance(usage, dict):
                self._add(document, usage)

    def _add(self, document: dict[str, Any], usage: dict[str, Any]) -> None:
        reported = {key: value for key, value in usage.items() if value is not None}
        if self._wire is Wire.MESSAGES and document.get("type") == "message_start":
            reported.pop("output_tokens", None)  # a beginning, no count
        self._fields |= reported
        self._final |= self._wire is not Wire.GEMINI or _has_ended(document)

    def _beside_a_choice(self, holder: dict[str, Any]) -> object:
        """Return usage where Moonshot puts it."""
        match holder.get("choices"):
            case [{"usage": usage}, *_] if self._wire is Wire.CHAT:
                return usage
            case _:
                return None


def _has_ended(document: dict[str, Any]) -> bool:
    match document.get("candidates"):
        case [{"finishReason": str()}, *_]:
            return True
        case _:
            return False
