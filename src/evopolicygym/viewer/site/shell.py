"""The page of static pages: ``static/index.html`` with the same modules and the same style, all within one file.

Pages from a disk may import no module and fetch nothing, so each module stands in the page's import map. A policy in
the page forbids every script but these, and every load from elsewhere.
"""

import base64
import hashlib
import re
from collections.abc import Mapping
from typing import Any

from evopolicygym.records.jsontext import dumps
from evopolicygym.viewer.site.app import static_files

_IMPORTED = re.compile(r'(\bfrom ")\./([a-z_]+\.js";)')
_POLICY = (
    "default-src 'none'; script-src {scripts}; style-src {styles}; img-src data: {beside}; media-src {beside}; "
    "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types documents"
)


def shell(kept: Mapping[str, Any], *, single: bool) -> tuple[str, str]:
    """Return the page up to where documents stand in it, and its end.

    ``kept`` is what the modules are shown of the documents; ``single`` says that all of them stand in the page, so that
    nothing may be loaded from beside it.
    """
    files = {name: content.decode() for name, content in static_files().items()}
    modules = {name: _address("text/javascript", _bare(text)) for name, text in files.items() if name.endswith(".js")}
    imports = _as_script_text({"imports": modules})
    begin = 'import "main.js";'
    style = files["style.css"]
    beside = "" if single else " 'self' file:"  # of a page on a disk, not every browser takes 'self' for its directory
    policy = _POLICY.format(
        scripts=f"data: {_hash(imports)} {_hash(begin)}{beside}", styles=_hash(style), beside=beside
    )
    text = files["index.html"]
    for before, after in (
        (
            '<meta charset="utf-8">',
            f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">',
        ),
        ('href="static/icon.svg"', f'href="{_address("image/svg+xml", files["icon.svg"])}"'),
        ('<link rel="stylesheet" href="static/style.css">', f"<style>{style}</style>"),
        (
            '<script type="module" src="static/main.js"></script>',
            f'<script type="importmap">{imports}</script>\n<script type="module">{begin}</script>',
        ),
    ):
        text = _replaced(text, before, after)
    beginning, end = text.split("</body>")
    data = f'<script type="application/json" id="kept">{_as_script_text(kept)}</script>\n'
    return beginning + data, f"</body>{end}"


def block(name: str, packed: str) -> str:
    """Return an element that holds a document; its name, made of untrusted words perhaps, does nothing in it."""
    return f'<script type="text/plain" id="kept/{_attribute(name)}">{packed}</script>\n'


def handed_over(name: str, packed: str) -> str:
    """Return a script that hands a document over."""
    return f"evopolicygymDocument({_as_script_text(name)},{_as_script_text(packed)});\n"


def _as_script_text(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return JSON that ends no script element, and that is JavaScript too."""
    text = dumps(value)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _attribute(text: str) -> str:
    return "".join(
        char if char.isascii() and (char.isalnum() or char in "/-._,") else f"&#{ord(char)};" for char in text
    )


def _bare(module: str) -> str:
    """Return a module that imports the others by the names of the import map: nothing lies beside it."""
    return _IMPORTED.sub(r"\1\2", module)


def _address(kind: str, text: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(text.encode()).decode('ascii')}"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}'"


def _replaced(text: str, before: str, after: str) -> str:
    if text.count(before) != 1:
        raise AssertionError(f"static/index.html has not exactly one {before!r}")
    return text.replace(before, after)
