"""A hub on this machine's loopback, which speaks as Hugging Face's does where data sets are made and committed to.

``python hub_stand_in.py COMMAND …`` runs a command with its address, and prints as JSON what the command did and what
the hub holds then.
"""

import base64
import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "0" * 40
TAKEN = os.environ.get("HUB_HAS", "")
"""A public data set that is there already."""


@dataclass
class Hub:
    """What has come."""

    private: dict[str, bool] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)


HUB = Hub(private={TAKEN: False} if TAKEN else {})


class Handler(BaseHTTPRequestHandler):
    """Answers the client's requests; it never asks for large files apart."""

    def do_GET(self) -> None:
        """Say what is known of a data set."""
        name = self._heard().removeprefix("/api/datasets/")
        if name not in HUB.private:
            self._answer({"error": "Repository not found"}, 404)
            return
        self._answer({"id": name, "private": HUB.private[name], "sha": COMMIT, "siblings": [], "tags": []})

    def do_POST(self) -> None:
        """Make a data set, say how files are to come, and take a commit."""
        path = self._heard()
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if path == "/api/repos/create":
            self._create(json.loads(body))
        elif path == "/api/validate-yaml":
            self._answer({"errors": [], "warnings": []})
        elif "/preupload/" in path:
            names = [one["path"] for one in json.loads(body)["files"]]
            files = [{"path": one, "uploadMode": "regular", "shouldIgnore": False} for one in names]
            self._answer({"files": files})
        else:
            for line in body.splitlines():
                entry = json.loads(line)
                if entry["key"] == "file":
                    content = base64.b64decode(entry["value"]["content"])
                    HUB.files[entry["value"]["path"]] = content.decode("latin-1")
            name = path.removeprefix("/api/datasets/").partition("/commit/")[0]
            address = f"http://{self.headers['Host']}/datasets/{name}/commit/{COMMIT}"
            self._answer({"success": True, "commitOid": COMMIT, "commitUrl": address})

    def _create(self, asked: dict[str, Any]) -> None:
        name = f"{asked['organization']}/{asked['name']}"
        address = f"http://{self.headers['Host']}/datasets/{name}"
        if name in HUB.private:
            self._answer({"error": "You already created this dataset repo", "url": address}, 409)
            return
        HUB.private[name] = asked.get("visibility") == "private" or bool(asked.get("private"))
        self._answer({"url": address, "name": name})

    def _heard(self) -> str:
        HUB.tokens.add(self.headers.get("Authorization", ""))
        HUB.asked.append(f"{self.command} {self.path}")
        return self.path.partition("?")[0]

    def _answer(self, document: dict[str, Any], status: int = 200) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if status == 404:
            self.send_header("X-Error-Code", "RepoNotFound")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def main() -> None:
    """Run a command beside the hub."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings = {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_TOKEN": "hf_of_nobody"}
    done = subprocess.run(sys.argv[1:], env={**os.environ, **settings}, capture_output=True, text=True, check=False)
    outcome = {"code": done.returncode, "out": done.stdout, "err": done.stderr}
    told = {"private": HUB.private, "files": HUB.files, "tokens": sorted(HUB.tokens), "asked": HUB.asked}
    sys.stdout.write(json.dumps({**outcome, **told}))


if __name__ == "__main__":
    main()
