"""The real key is taken out in whatever form a server sends it back, wherever that is cut."""

import base64
import json
from urllib.parse import quote

import pytest

from evopolicygym.model_proxy.mask import Mask
from model_proxies import REAL_KEY

KEY = REAL_KEY + '/+"9'
ALL_ESCAPED = "".join(f"\\u{ord(letter):04X}" for letter in KEY)
PERCENT = "".join(f"%{ord(letter):02x}" for letter in KEY)
MIME = base64.encodebytes(b"a" * 50 + KEY.encode()).decode()
FORMS: dict[str, str] = {
    "as it is": KEY,
    "JSON": json.dumps(KEY)[1:-1],
    "JSON with slashes": KEY.replace('"', '\\"').replace("/", "\\/"),
    "JSON all escaped": ALL_ESCAPED,
    "JSON in JSON": json.dumps(json.dumps(ALL_ESCAPED + KEY))[3:-3],
    "partly escaped": "\\u0073k" + KEY[2:-3] + "+\\u00229",
    "Python": "".join(f"\\x{ord(letter):02x}" for letter in KEY),
    "URL": quote(KEY, safe=""),
    "URL all escaped": PERCENT,
    "URL twice": quote(PERCENT, safe=""),
    "HTML": "".join(f"&#{ord(letter)};" for letter in KEY),
    "HTML hexadecimal": "".join(f"&#x{ord(letter):x};" for letter in KEY),
    "hexadecimal": KEY.encode().hex().upper(),
    **{f"base64 {before}": base64.b64encode(b"b" * before + KEY.encode() + b"c").decode() for before in range(4)},
    "base64 of addresses": base64.urlsafe_b64encode(b"Bearer " + KEY.encode()).decode(),
    "base64 in lines": MIME,
    "base64 in lines in JSON": json.dumps(MIME)[1:-1],
    "base64 in an address": quote(base64.b64encode(KEY.encode()).decode(), safe=""),
}


def masked(text: str, size: int) -> str:
    """Return what comes of a text that is fed in pieces of a size."""
    mask = Mask(KEY)
    data = text.encode()
    parts = [mask.feed(data[start : start + size]) for start in range(0, len(data), size)]
    return b"".join([*parts, mask.finish()]).decode()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 100_000])
@pytest.mark.parametrize("form", FORMS)
def test_no_form_of_the_key_passes(form: str, size: int) -> None:
    """Of an escaped, encoded or broken key hardly anything is left, and what stands around it stays."""
    text = f'data: {{"error": "{FORMS[form]}"}}\n\n'
    found = masked(text, size)

    assert len(found) == len(text)
    assert found.startswith('data: {"error": "')
    assert found.endswith('"}\n\n')
    left = found.removeprefix('data: {"error": "').removesuffix('"}\n\n').replace("*", "")
    assert len(left) <= (75 if "lines" in form else 16), left


@pytest.mark.parametrize("form", ["JSON", "JSON all escaped", "JSON in JSON", "base64 0", "hexadecimal"])
def test_what_is_masked_is_still_json(form: str) -> None:
    """A mask in a JSON text leaves JSON."""
    message = json.loads(masked(f'{{"message": "a {FORMS[form]} b"}}', 5))["message"]

    assert (message[:3], message[-2:]) == ("a *", " b")


@pytest.mark.parametrize(
    "text",
    ['{"a": "\\u0041\\n100% & \\"b\\" \\/"}', "%25%20%", "&amp; &#39; &#x", "\\\\\\", "skskskssk-real-", "c2stcmVhbC0"],
)
def test_other_escapes_pass(text: str) -> None:
    """What is no key comes out as it went in, wherever it is cut."""
    assert {masked(text, size) for size in (1, 2, 3, 100)} == {text}


def test_an_event_passes_at_once() -> None:
    """Nothing is held back of an event that ends as events do."""
    event = b'data: {"delta": "100% \\u00e9 as"}\n\n'

    assert Mask(KEY).feed(event) == event
