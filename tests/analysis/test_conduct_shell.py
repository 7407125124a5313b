"""What a shell's text runs: words, here-documents, shells within shells, and where it is."""

import time

import pytest

from evopolicygym.analysis.conduct.shell_commands import ShellLexer, simple_commands

HOSTILE = {
    "substitutions": "$(" * 50_000,
    "quotes": "'" * 99_999,
    "here-documents": "<<A " * 5_000 + "\n",
    "shells": "bash -c '" * 3_000,
    "groups": "{ ( " * 10_000,
    "backquotes": "`" * 99_999,
    "escapes": "a\\" * 50_000,
}


def words(text: str) -> list[tuple[str, ...]]:
    """Return the commands of a text as words."""
    return [one.words for one in simple_commands(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ls -la 'a b' \"c d\"", [("ls", "-la", "a b", "c d")]),
        ("a && b || c; d & e\nf", [("a",), ("b",), ("c",), ("d",), ("e",), ("f",)]),
        ("X=1 timeout -k 3 60 nice -n 19 env A=b python3 x.py", [("python3", "x.py")]),
        ("if true; then pip install x; fi", [("true",), ("pip", "install", "x")]),
        ("for i in 1 2; do ./judge submit $i; done", [("./judge", "submit", "$i")]),
        ('echo "pip install x" # curl y', [("echo", "pip install x")]),
        ('bash -lc "cd system && ls"', [("bash", "-lc", "cd system && ls"), ("cd", "system"), ("ls",)]),
        ("echo $(curl x) `wget y`", [("curl", "x"), ("wget", "y"), ("echo", "$(curl x)", "`wget y`")]),
        ("find . -name {} -exec rm {} \\;", [("find", ".", "-name", "{}", "-exec", "rm", "{}", ";")]),
        ("(cd out && ls) 2>/dev/null | head", [("cd", "out"), ("ls",), ("head",)]),
    ],
)  # fmt: skip
def test_commands_are_found(text: str, expected: list[tuple[str, ...]]) -> None:
    """Each simple command is found with its words, whatever stands around it."""
    assert words(text) == expected


def test_a_here_document_is_input() -> None:
    """Its lines are given to the command that begins it, and are no commands."""
    (first, second) = simple_commands("python3 - <<'EOF' > out.txt\nimport os\npip install x\nEOF\nls\n")

    assert (first.words, first.standard_input, first.writes) == (
        ("python3", "-"), "import os\npip install x\n", "out.txt"
    )  # fmt: skip
    assert second.words == ("ls",)


def test_what_is_printed_into_a_pipe_is_input() -> None:
    """A program that ``echo`` prints into an interpreter is that interpreter's."""
    *_, last = simple_commands("echo 'print(1)' | python3")

    assert (last.words, last.standard_input) == (("python3",), "print(1)\n")


def test_directories_are_followed() -> None:
    """A path is seen from where ``cd`` led."""
    *_, last = simple_commands("cd system; cd ..; cd feedback/submit_000; ls ..")

    assert last.directory == "feedback/submit_000"


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_texts_are_read(text: str) -> None:
    """What no shell would take is read to its end, without an error."""
    list(simple_commands(text))
    list(ShellLexer(text).tokens())


@pytest.mark.nightly
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_texts_are_read_soon(text: str) -> None:
    """It takes a few seconds at most."""
    start = time.process_time()
    list(simple_commands(text))
    list(ShellLexer(text).tokens())

    assert time.process_time() - start < 10
