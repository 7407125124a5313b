"""A tool that speaks as Codex does and does what a test tells it, for what a real tool would take minutes to do."""

from dataclasses import replace
from pathlib import Path
from threading import Event

from enclosed import desk
from evopolicygym.agents.base import make
from evopolicygym.agents.kit.scripted_model.server import ScriptedModel
from evopolicygym.core.agent import AgentConfig, Turn
from fakes import OpenRun
from model_proxies import VARIABLE

PROGRAM = """\
#!/usr/bin/env python3
import json, os, pathlib, subprocess, sys, time, tomllib, urllib.error, urllib.request

home = pathlib.Path.home()
address = tomllib.loads((home / ".codex/config.toml").read_text())["model_providers"]["proxy"]["base_url"]
resumed = "resume" in sys.argv
key = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}

def tell(**event):
    print(json.dumps(event), flush=True)

def ask():
    request = urllib.request.Request(address + "/responses", b'{"model": "scripted", "input": "What now?"}', key)
    try:
        with urllib.request.urlopen(request) as answer:
            return 500 if b'"error"' in answer.read() else answer.status
    except urllib.error.HTTPError as error:
        return error.code

def submit():
    subprocess.run(["./judge", "submit", "0"], check=True)

tell(type="thread.started", thread_id="thread-1")
"""


def program(directory: Path, script: str) -> str:
    """Return where a tool lies that does what a script says."""
    file = directory / "scripted_tool"
    file.write_text(PROGRAM + script, encoding="utf-8")
    file.chmod(0o755)
    return str(file)


def turn(run: OpenRun, model: ScriptedModel, script: str, *, level: str = "none", **options: int) -> Turn:
    """Play one turn of a tool that does what a script says; the real key must stand in its variable."""
    given = {"program": program(run.paths.root.parent, script), "model_url": model.url, "model_key": VARIABLE}
    agent = make(AgentConfig("codex", "scripted", {**given, **options}))
    return agent.play(replace(desk(run), isolation=level), run.door, Event())
