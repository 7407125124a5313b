"""A client of the Agent Client Protocol, version 1: one prompt to one tool, told as a line of JSON an event.

A copy in the tool's home runs in its sandbox, so this file imports only the standard library:

    python3 client.py PROMPT FIRST SESSION PROGRAM [ARGUMENT …]

SESSION is empty for a new one; FIRST goes before the prompt where a session can't go on and a new one begins. The
client offers no files and no terminals, as the tool has its own, and allows what the tool asks to do: the sandbox is
what keeps it in.
"""

import json
import queue
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

Message = dict[str, Any]
PROTOCOL = 1
ANSWER_S = 120.0
"""Seconds that a tool has to answer everything but the prompt."""
END_S = 5.0
"""Seconds that a tool has to end by itself once its input is closed."""
SIGN_IN, NO_METHOD = -32000, -32601
"""Codes of errors: the tool wants to be signed in; a request is not known."""
BY_KEY = ("key", "openai")
"""What the id of a way to sign in holds that reads a key from the environment."""
NO_ACP = "Expected a tool that speaks the Agent Client Protocol over its standard input and output"


class ToolError(Exception):
    """The tool can't go on; the message says why in a line."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


def tell(**event: object) -> None:
    """Print an event."""
    say(json.dumps(event))


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Connection:
    """A started tool."""

    def __init__(self, command: list[str]) -> None:
        try:
            self._tool = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as error:
            raise ToolError(f"{command[0]} can't be started: {error.strerror}") from error
        if self._tool.stdin is None or self._tool.stdout is None:
            raise ToolError(f"{command[0]} was started without pipes.")
        self._input, self._output = self._tool.stdin, self._tool.stdout
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._number = 0
        self._said = ""
        self.listening = False
        """Whether updates are told; not while a session that is loaded is played back."""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def call(self, method: str, parameters: Message, patience: float | None = ANSWER_S) -> Message:
        """Return a request's result; answer what the tool asks for meanwhile."""
        self._number += 1
        number = self._number
        self._send({"id": number, "method": method, "params": parameters})
        while True:
            message = self._next(method, patience)
            if "method" in message:
                self._take(message)
            elif message.get("id") == number:
                self.flush()
                if isinstance(error := message.get("error"), dict):
                    text = " ".join(str(error.get("message", "")).split())
                    raise ToolError(f"The tool refuses {method}: {text}", int(error.get("code", 0)))
                return dict(message.get("result") or {})

    def flush(self) -> None:
        """Tell what the model said so far."""
        if self._said:
            tell(type="message", text=self._said)
        self._said = ""

    def close(self) -> None:
        """End the tool."""
        with suppress(OSError):
            self._input.close()
        for end in (self._tool.terminate, self._tool.kill):
            try:
                self._tool.wait(END_S)
            except subprocess.TimeoutExpired:
                end()
        self._tool.wait()
        self._reader.join(END_S)
        self._output.close()

    def _read(self) -> None:
        for line in self._output:
            self._lines.put(line)
        self._lines.put(None)

    def _next(self, method: str, patience: float | None) -> Message:
        while True:
            try:
                line = self._lines.get(timeout=patience)
            except queue.Empty:
                raise ToolError(f"{NO_ACP}; it gave no answer to {method} within {patience:g} s.") from None
            if line is None:
                code = self._tool.wait()
                raise ToolError(f"{NO_ACP}; it ended with exit code {code} before it answered {method}.")
            try:
                message = json.loads(line)
            except ValueError:
                message = None
            if isinstance(message, dict):
                return message
            say(line.decode("utf-8", "replace").rstrip())  # no message: for the transcript

    def _send(self, message: Message) -> None:
        with suppress(OSError):  # where it has ended, its output says so next
            self._input.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            self._input.flush()

    def _take(self, message: Message) -> None:
        """Answer a request, or tell what an update says."""
        parameters = message.get("params")
        parameters = parameters if isinstance(parameters, dict) else {}
        if "id" not in message:
            if message["method"] == "session/update" and self.listening:
                self._update(parameters.get("update"))
            return
        if message["method"] == "session/request_permission":
            self._send({"id": message["id"], "result": {"outcome": allowed(parameters)}})
        else:
            error = {"code": NO_METHOD, "message": f"{message['method']} is not offered"}
            self._send({"id": message["id"], "error": error})

    def _update(self, update: object) -> None:
        if not isinstance(update, dict):
            return
        kind, content = update.get("sessionUpdate"), update.get("content")
        if kind == "agent_message_chunk":
            self._said += str(content.get("text", "")) if isinstance(content, dict) else ""
        elif kind != "agent_thought_chunk":
            self.flush()
            tell(type="update", update=update)


def allowed(parameters: Message) -> Message:
    """Return the outcome that allows what a tool asks to do; ``cancelled`` where no option allows it."""
    options = [option for option in parameters.get("options") or () if isinstance(option, dict)]
    for kind in ("allow_always", "allow_once"):
        for option in options:
            if option.get("kind") == kind:
                return {"outcome": "selected", "optionId": option.get("optionId")}
    return {"outcome": "cancelled"}


def open_session(tool: Connection, session: str) -> tuple[str, bool]:
    """Initialise a tool and return a session's id, the same one where it can go on, and whether it can be loaded."""
    none = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
    info = {"name": "evopolicygym", "version": "1"}
    found = tool.call("initialize", {"protocolVersion": PROTOCOL, "clientCapabilities": none, "clientInfo": info})
    if (version := found.get("protocolVersion")) != PROTOCOL:
        raise ToolError(f"Invalid protocol version of the tool: expected {PROTOCOL}, got {version!r}.")
    capabilities = found.get("agentCapabilities")
    loads = bool(isinstance(capabilities, dict) and capabilities.get("loadSession"))
    ways = [str(way.get("id")) for way in found.get("authMethods") or () if isinstance(way, dict)]
    place: Message = {"cwd": str(Path.cwd()), "mcpServers": []}
    if session and loads:
        try:
            _signed_in(tool, ways, "session/load", {"sessionId": session, **place})
        except ToolError as error:
            say(f"{error} A new session begins.")
        else:
            return session, loads
    return str(_signed_in(tool, ways, "session/new", place).get("sessionId", "")), loads


def _signed_in(tool: Connection, ways: list[str], method: str, parameters: Message) -> Message:
    """Return a request's result; sign in with the key in the environment where the tool wants that first."""
    try:
        return tool.call(method, parameters)
    except ToolError as error:
        way = next((way for way in ways if any(word in way for word in BY_KEY)), None)
        if error.code != SIGN_IN or way is None:
            raise
    tool.call("authenticate", {"methodId": way})
    return tool.call(method, parameters)


def main(arguments: list[str]) -> int:
    """Play one turn; return the exit code."""
    prompt, first, asked, *command = arguments
    tool = None
    try:
        tool = Connection(command)
        session, loads = open_session(tool, asked)
        if session != asked:
            prompt = f"{first}\n\n{prompt}".strip()
        tell(type="session", id=session, loads=loads)
        tool.listening = True
        blocks = [{"type": "text", "text": prompt}]
        ended = tool.call("session/prompt", {"sessionId": session, "prompt": blocks}, None)
        tell(type="stop", reason=ended.get("stopReason"), usage=ended.get("usage") or {})
    except ToolError as error:
        tell(type="error", message=str(error))
        return 1
    finally:
        if tool:
            tool.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
