"""A client of the Agent Client Protocol, version 1: sends a tool one prompt, and prints each event as a line of JSON.

A copy in the tool's home runs in its sandbox, so this file imports only the standard library:

    python3 client.py PROMPT FIRST SESSION PROGRAM [ARGUMENT …]

SESSION is empty for a new session; FIRST precedes the prompt if a session can't continue and a new one starts. The
client offers no files and no terminals, since the tool has its own, and grants every permission: the sandbox contains
the tool.
"""

import json
import queue
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Message = dict[str, Any]
PROTOCOL = 1
ANSWER_S = 120.0
"""Seconds that a tool has to answer every request but the prompt."""
END_S = 5.0
"""Seconds that a tool has to exit once its input is closed."""
SIGN_IN, NO_METHOD = -32000, -32601
"""Error codes: authentication required; unknown method."""
BY_KEY = ("key", "openai")
"""Substrings in the ids of authentication methods that read a key from the environment."""
TELL_VERSION = "--tell-version"
"""In place of a prompt and all that belongs to it: print the version of the tool."""
NO_ACP = "Expected a tool that speaks the Agent Client Protocol over its standard input and output"


class ToolError(Exception):
    """The tool can't continue; the message gives the reason in one line."""

    def __init__(self, message: str, code: int = 0, exit_code: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.exit_code = exit_code
        """The exit code of a tool that ended, negative for a signal."""


def print_event(**event: object) -> None:
    """Print an event with its time."""
    print_line(json.dumps({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **event}))


def print_line(line: str) -> None:
    """Print a line and flush it."""
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
        self._thought = self._message = ""
        self.listening = False
        """Whether updates are printed; not while the tool replays a loaded session."""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def call(self, method: str, parameters: Message, patience: float | None = ANSWER_S) -> Message:
        """Return a request's result; answer the tool's own requests meanwhile."""
        self._number += 1
        number = self._number
        self._send({"id": number, "method": method, "params": parameters})
        while True:
            message = self._next(method, patience)
            if "method" in message:
                self._handle(message)
            elif message.get("id") == number:
                self.flush()
                if isinstance(error := message.get("error"), dict):
                    text = " ".join(str(error.get("message", "")).split())
                    raise ToolError(f"The tool rejects {method}: {text}", int(error.get("code", 0)))
                return dict(message.get("result") or {})

    def flush(self) -> None:
        """Print the model's thought and message so far."""
        if self._thought:
            print_event(type="thought", text=self._thought)
        if self._message:
            print_event(type="message", text=self._message)
        self._thought = self._message = ""

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
                raise ToolError(f"{NO_ACP}; it did not answer {method} within {patience:g} s.") from None
            if line is None:
                self._lines.put(None)
                code = self._tool.wait()
                raise ToolError(f"{NO_ACP}; it exited with code {code} before it answered {method}.", exit_code=code)
            try:
                message = json.loads(line)
            except ValueError:
                message = None
            if isinstance(message, dict):
                return message
            print_line(line.decode("utf-8", "replace").rstrip())  # not a message: for the transcript

    def _send(self, message: Message) -> None:
        with suppress(OSError):  # if it has exited, its output ends too
            self._input.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            self._input.flush()

    def _handle(self, message: Message) -> None:
        """Answer a request, or print an update."""
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
        text = str(content.get("text", "")) if isinstance(content, dict) else ""
        if kind == "agent_message_chunk":
            self._message += text
        elif kind == "agent_thought_chunk":
            self._thought += text
        else:
            self.flush()
            print_event(type="update", update=update)


def allowed(parameters: Message) -> Message:
    """Return the outcome that grants a permission; ``cancelled`` if no option does."""
    options = [option for option in parameters.get("options") or () if isinstance(option, dict)]
    for kind in ("allow_always", "allow_once"):
        for option in options:
            if option.get("kind") == kind:
                return {"outcome": "selected", "optionId": option.get("optionId")}
    return {"outcome": "cancelled"}


def initialize(tool: Connection) -> Message:
    """Return what a tool says of itself."""
    none = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
    info = {"name": "evopolicygym", "version": "1"}
    return tool.call("initialize", {"protocolVersion": PROTOCOL, "clientCapabilities": none, "clientInfo": info})


def tell_version(command: list[str]) -> int:
    """Print the name and version that a tool says it has; return the exit code."""
    tool = None
    try:
        tool = Connection(command)
        info = initialize(tool).get("agentInfo")
        info = info if isinstance(info, dict) else {}
        print_line(" ".join(str(info[name]) for name in ("name", "version") if info.get(name)))
    except ToolError:
        return 1
    finally:
        if tool:
            tool.close()
    return 0


def open_session(tool: Connection, session: str) -> tuple[str, bool]:
    """Initialise a tool; return the session's id, the same one if it continues, and whether sessions can be loaded."""
    reply = initialize(tool)
    if (version := reply.get("protocolVersion")) != PROTOCOL:
        raise ToolError(f"Invalid protocol version of the tool: expected {PROTOCOL}, got {version!r}.")
    capabilities = reply.get("agentCapabilities")
    loads = bool(isinstance(capabilities, dict) and capabilities.get("loadSession"))
    logins = [str(login.get("id")) for login in reply.get("authMethods") or () if isinstance(login, dict)]
    parameters: Message = {"cwd": str(Path.cwd()), "mcpServers": []}
    if session and loads:
        try:
            _call_with_login(tool, logins, "session/load", {"sessionId": session, **parameters})
        except ToolError as error:
            print_line(f"{error} Starting a new session.")
        else:
            return session, loads
    return str(_call_with_login(tool, logins, "session/new", parameters).get("sessionId", "")), loads


def _call_with_login(tool: Connection, logins: list[str], method: str, parameters: Message) -> Message:
    """Return a request's result; if the tool requires it, authenticate first with the key in the environment."""
    try:
        return tool.call(method, parameters)
    except ToolError as error:
        login = next((login for login in logins if any(word in login for word in BY_KEY)), None)
        if error.code != SIGN_IN or login is None:
            raise
    tool.call("authenticate", {"methodId": login})
    return tool.call(method, parameters)


def main(arguments: list[str]) -> int:
    """Play one turn; return the exit code."""
    if arguments[:1] == [TELL_VERSION]:
        return tell_version(arguments[1:])
    prompt, first, previous, *command = arguments
    tool, exit_code = None, 0
    try:
        tool = Connection(command)
        session, loads = open_session(tool, previous)
        if session != previous:
            prompt = f"{first}\n\n{prompt}".strip()
        print_event(type="session", id=session, loads=loads)
        tool.listening = True
        print_event(type="prompt", text=prompt)
        blocks = [{"type": "text", "text": prompt}]
        result = tool.call("session/prompt", {"sessionId": session, "prompt": blocks}, None)
        print_event(type="stop", reason=result.get("stopReason"), usage=result.get("usage") or {})
    except ToolError as error:
        print_event(type="error", message=str(error))
        exit_code = min(1, error.exit_code) or 1
    finally:
        if tool:
            tool.close()
    return exit_code


def end_as(exit_code: int) -> None:
    """End this process as the tool ended: by the same signal, if the code is negative, or else with the code."""
    if exit_code < 0:
        with suppress(OSError):  # SIGKILL has no handler
            signal.signal(-exit_code, signal.SIG_DFL)
        signal.raise_signal(-exit_code)
    sys.exit(exit_code)


if __name__ == "__main__":
    end_as(main(sys.argv[1:]))
