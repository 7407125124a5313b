"""Checks that docs, code and layout agree: ``python docs/check.py``, a part of ``make check``.

Each check yields its problems as ``path:line: message``. import-linter checks which package may import which, by the
contracts in ``pyproject.toml``.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from inspect import signature
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import grimp
import measured_numbers
import tables
from build_site import FENCE, LINK, slugs, without_fences
from typer.core import TyperGroup
from typer.main import get_command

import evopolicygym
from evopolicygym.cli.main import app
from evopolicygym.specs import catalog

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "evopolicygym"
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OTHER_PAGES = ("CONTRIBUTING.md", "SECURITY.md", "examples/README.md", "results/README.md")
PAGES = [*DOCS, *(ROOT / page for page in OTHER_PAGES)]
ARCHITECTURE = ROOT / "docs" / "architecture.md"
ENVIRONMENTS = ROOT / "docs" / "reference" / "environments.md"
PYTHON = ROOT / "docs" / "reference" / "python.md"
SECURITY = ROOT / "docs" / "reference" / "security.md"
PYPROJECT = ROOT / "pyproject.toml"

INLINE = re.compile(r"`([^`]+)`")
FILE = re.compile(r"(?<![\w/.<>*~{}-])((?:[\w.-]+/)+[\w-]+\.(?:py|md|toml))\b")
"""A path to a file in a folder; a pattern such as ``agents/<name>.py`` isn't one."""
COMMENT = re.compile(r"(?:^|\s)#.*$", re.MULTILINE)
HASH_LABEL = re.compile(r"evopolicygym [a-z ]+ \d")
"""What a hash of the protocol begins with; it only looks like a command."""
COMMAND = re.compile(r"\s*(?:\w+=\S+ )*evopolicygym\s+(.+)", re.DOTALL)
SAID = re.compile(r"evopolicygym ([a-z-]+ [^\n;|&,\"'`]+)")
"""A command in a text of the package, as far as it is one without a doubt."""
OPTION = re.compile(r"(?<![^\s[|])--[a-z][a-z-]*")
PACKAGE_ROW = re.compile(r"^\| (\d+) \| `(\w+)/` \|", re.MULTILINE)
ATTACK_ROW = re.compile(r"^\| ([A-Z]\d\d) \|.*$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)")
RUN_PATHS = {"run.json", "system/"}
"""Paths on the page about architecture that lie in a run directory."""
ELSEWHERE = {"crawl/crawl.toml", "workspace/notes/log.md"}
"""Paths on other pages that lie in an example package or in a run directory."""
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc"}
LEVELS = {path.stem for path in (PACKAGE / "sandbox" / "backends").glob("*.py")} - {"__init__"}
TEMPLATES = PACKAGE / "checks" / "package_templates"
"""Packages of others, which import this one."""
HOSTILE = PACKAGE / "checks" / "attacks"
"""Programs of an attacker, which name whatever they like."""


class Snippet(NamedTuple):
    """Code on a page, and the offset at which it begins."""

    start: int
    text: str


def dead_links() -> Iterator[str]:
    """Check that each relative link leads to a file, and its anchor to a heading."""
    for page in [*PAGES, ROOT / "CHANGELOG.md"]:
        text = _without_fences(page)
        for found in LINK.finditer(text):
            path, _, anchor = found[1].partition("#")
            target = page.parent / path if path else page
            if ":" in path:
                continue
            if not target.exists():
                yield f"{_place(page, found.start())}: the link {found[1]} leads to no file"
            elif anchor and target.suffix == ".md" and anchor not in _anchors(target):
                yield f"{_place(page, found.start())}: the link {found[1]} leads to no heading"


def dead_paths_on_pages() -> Iterator[str]:
    """Check that each path in backticks on a page exists."""
    for page in PAGES:
        for snippet in _inline_code(page):
            for path in FILE.findall(snippet.text):
                if path not in _known_paths() | ELSEWHERE:
                    yield f"{_place(page, snippet.start)}: no file {path}"


def dead_paths_in_architecture() -> Iterator[str]:
    """Check that each file and folder exists that the page about architecture names."""
    for snippet in _inline_code(ARCHITECTURE):
        path = snippet.text
        if not re.fullmatch(r"[\w./<>-]+", path) or path in RUN_PATHS:
            continue
        if "/" in path or path.endswith((".py", ".toml", ".json")):
            kept = path.partition("<")[0].rpartition("/")[0] if "<" in path else path.rstrip("/")
            if kept not in _known_paths():
                yield f"{_place(ARCHITECTURE, snippet.start)}: no file or folder {path}"


def dead_paths_in_code() -> Iterator[str]:
    """Check that each path in a docstring or a comment of the package exists."""
    for file in _modules():
        for line, text in _docstrings_and_comments(file):
            for found in FILE.finditer(text):
                if found[1] not in _known_paths():
                    yield f"{_relative(file)}:{line + text[: found.start()].count(chr(10))}: no file {found[1]}"


def verbs_without_docs() -> Iterator[str]:
    """Check that the docs name each verb, and each of its options on a page that names the verb."""
    for verb, command in _verbs().items():
        pages = [_read(page) for page in DOCS if f"evopolicygym {verb}" in _read(page)]
        if not pages:
            yield f"docs/reference/command_line.md:1: no page names the verb {verb}"
        for option in sorted(_options(command)):
            if pages and not any(re.search(rf"(?<![\w-]){option}(?![\w-])", text) for text in pages):
                yield f"docs/reference/command_line.md:1: no page that names {verb} names its option {option}"


def commands_that_fail() -> Iterator[str]:
    """Check that each command in the docs has a verb and options that exist."""
    for page in PAGES:
        for snippet in [*_inline_code(page), *_shell_lines(page)]:
            found = COMMAND.match(COMMENT.sub("", snippet.text))
            if found and not HASH_LABEL.fullmatch(snippet.text):
                for message in _faults(found[1]):
                    yield f"{_place(page, snippet.start)}: {message}: evopolicygym {' '.join(found[1].split())}"


def commands_in_code_that_fail() -> Iterator[str]:
    """Check that each command in a text of the package has options that exist; the viewer's pages name no others."""
    for file in _modules():
        for found in SAID.finditer(_read(file)):
            if found[1].split()[0] in _verbs():
                for message in _faults(found[1]):
                    yield f"{_place(file, found.start())}: {message}: evopolicygym {found[1]}"
    known = set[str]().union(*map(_options, _verbs().values()))
    for file in sorted((PACKAGE / "viewer").rglob("*.js")):
        for found in re.finditer(r"(?<=[ `])--[a-z][a-z-]*", _read(file)):
            if found[0] not in known:
                yield f"{_place(file, found.start())}: no verb has the option {found[0]}"


def public_names_without_docs() -> Iterator[str]:
    """Check that the page about Python names each public name."""
    known = {word for snippet in _inline_code(PYTHON) for word in re.findall(r"\w+", snippet.text)}
    for name in sorted(set(evopolicygym.__all__) - known):
        yield f"{_relative(PYTHON)}:1: no public name {name}"


def arguments_that_are_none() -> Iterator[str]:
    """Check that the arguments which the page about Python names of a public function are parameters of it."""
    for snippet in _inline_code(PYTHON):
        call = re.fullmatch(r"(\w+)\(([\w*, ]+)\)", snippet.text)
        if call and call[1] in evopolicygym.__all__:
            known = signature(getattr(evopolicygym, call[1])).parameters
            for name in re.findall(r"\w+", call[2]):
                if name not in known:
                    yield f"{_place(PYTHON, snippet.start)}: {call[1]} has no parameter {name}"


def environments_without_docs() -> Iterator[str]:
    """Check that the table of environments has each environment of the catalog, with its gymnasium id."""
    for name in catalog.names():
        row = re.search(rf"^.*(?<![\w-])`?{name}`? .*$", _read(ENVIRONMENTS), re.MULTILINE)
        if not row or catalog.load(name).id not in _read(ENVIRONMENTS):
            yield f"{_relative(ENVIRONMENTS)}:1: no row for {name} ({catalog.load(name).id})"


def attacks_without_tests() -> Iterator[str]:
    """Check that each attack has one row, which names tests that exist."""
    rows = list(ATTACK_ROW.finditer(_read(SECURITY)))
    seen = set[str]()
    if not rows:
        yield f"{_relative(SECURITY)}:1: no rows of attacks found"
    for row in rows:
        tests = TEST.findall(row[0])
        if row[1] in seen or not tests:
            yield f"{_place(SECURITY, row.start())}: {row[1]} names no test, or has two rows"
        seen.add(row[1])
        for file, test in tests:
            if not (ROOT / file).is_file() or f"def {test}(" not in _read(ROOT / file):
                yield f"{_place(SECURITY, row.start())}: {row[1]} names the test {file}::{test}, which doesn't exist"


def errors_without_meaning() -> Iterator[str]:
    """Check that a table with numbers behind ± says in its header or title that they are standard errors."""
    for page in DOCS:
        for table in re.finditer(r"(?:^\*\*.*\*\*\n\n)?(?:^\|.*\n)+", _read(page), re.MULTILINE):
            head = re.split(r"\n\| ?---", table[0])[0]
            if re.search(r"\d ± \d", table[0]) and "± s.e." not in head:
                yield f"{_place(page, table.start())}: the table doesn't say what stands behind ±"


def stale_tables() -> Iterator[str]:
    """Check that the tables that ``docs/tables.py`` writes are up to date."""
    for page in tables.PAGES:
        if tables.with_tables(_read(page)) != _read(page):
            yield f"{_relative(page)}:1: stale table; run make docs"


def numbers_without_command() -> Iterator[str]:
    """Check that each table of numbers in docs/measure has a command, which the page shows and which exists."""
    for page in measured_numbers.PAGES:
        text = _read(page)
        for start in measured_numbers.tables_without_command(text) if page in measured_numbers.MEASURED else ():
            yield f"{_place(page, start)}: a table of numbers without a command (docs/measured_numbers.py)"
        try:
            blocks = list(measured_numbers.blocks(text, _relative(page)))
        except measured_numbers.InvalidMark as error:
            yield str(error)
            continue
        shown = " ".join(re.sub(r"<!--.*?-->", "", text).replace("\\\n", " ").split())
        for block in blocks:
            if block.is_generated:
                continue
            if block.command not in shown:
                yield f"{block.place}: the page doesn't show the command of its numbers: {block.command}"
            first, *words = block.command.split()
            if first == "python" and not (ROOT / words[0]).is_file():
                yield f"{block.place}: no file {words[0]}"
            if first == "make" and not re.search(rf"^{words[0]}:", _read(ROOT / "Makefile"), re.MULTILINE):
                yield f"{block.place}: no target {words[0]}"
            for message in _faults(" ".join(words)) if first == "evopolicygym" else ():
                yield f"{block.place}: {message}: {block.command}"


def layers_in_architecture() -> Iterator[str]:
    """Check that the page about architecture has each package in its layer."""
    layers = reversed(_contract("layers")["layers"])
    numbers = {name: number for number, layer in enumerate(layers, 1) for name in layer.split(" | ")}
    rows = {
        row[2]: (int(row[1]), _place(ARCHITECTURE, row.start())) for row in PACKAGE_ROW.finditer(_read(ARCHITECTURE))
    }
    for name in numbers.keys() - rows.keys():
        yield f"{_relative(ARCHITECTURE)}:1: no row for the package {name}"
    for name, (number, place) in rows.items():
        if number != numbers.get(name):
            yield f"{place}: {name} is in layer {numbers.get(name)} of pyproject.toml, not in {number}"


def libraries_missing_in_contracts() -> Iterator[str]:
    """Check that the contracts of the guest and the core forbid each library that the package imports."""
    ours = {"evopolicygym", "numpy", *sys.stdlib_module_names}
    libraries = {name for name in _graph().modules if "." not in name} - ours
    for contract in ("guest", "core"):
        line = _read(PYPROJECT)[: _read(PYPROJECT).index(f'id = "{contract}"')].count("\n") + 1
        for name in sorted(libraries - set(_contract(contract)["forbidden_modules"])):
            yield f"{_relative(PYPROJECT)}:{line}: the contract {contract} doesn't forbid {name}"


def import_cycles() -> Iterator[str]:
    """Check that no modules import each other in a circle, for type checking neither."""
    graph = _graph()
    ours = {name for name in graph.modules if name.split(".")[0] == "evopolicygym"}
    try:
        TopologicalSorter({name: graph.find_modules_directly_imported_by(name) & ours for name in ours}).prepare()
    except CycleError as error:
        cycle = error.args[1]
        for imported, importer in pairwise(cycle):
            line = graph.get_import_details(importer=importer, imported=imported)[0]["line_number"]
            yield f"{_file_of(importer)}:{line}: imports {imported}, in a circle of {len(cycle) - 1} modules"


def imports_outside_of_packages() -> Iterator[str]:
    """Check that files in folders without ``__init__.py``, which import-linter skips, import nothing of the package."""
    ours = [file for file in _modules() if TEMPLATES not in file.parents]
    loose = [file for file in ours if not (file.parent / "__init__.py").exists()]
    for file in [*loose, PACKAGE / "runs" / "workspace_template" / "judge"]:
        for node in ast.walk(_tree(file)):
            match node:
                case ast.Import(names=aliases):
                    names = [alias.name for alias in aliases]
                case ast.ImportFrom(module=module, level=level):
                    names = [f"{'.' * level}{module or ''}"]
                case _:
                    continue
            for name in names:
                if name.startswith(".") or name.split(".")[0] == "evopolicygym":
                    yield f"{_relative(file)}:{node.lineno}: imports {name}, in a folder without an __init__.py"


def imports_of_the_client() -> Iterator[str]:
    """Check that the judge's client, which workspaces have a copy of, imports the standard library and numpy only."""
    for file in (PACKAGE / "judge_client").glob("*.py"):
        for node in ast.walk(_tree(file)):
            match node:
                case ast.Import(names=aliases):
                    names = [alias.name for alias in aliases]
                case ast.ImportFrom(module=str(module), level=0):
                    names = [module]
                case _:
                    continue
            for name in names:
                if name.split(".")[0] not in {"numpy", *sys.stdlib_module_names}:
                    yield f"{_relative(file)}:{node.lineno}: imports {name}, which a workspace may not have"


def vague_names() -> Iterator[str]:
    """Check that no module and no folder is named for being useful."""
    for path in PACKAGE.rglob("*"):
        if path.stem in VAGUE and (path.is_dir() or path.suffix == ".py"):
            yield f"{_relative(path)}:1: a name that doesn't say what is inside"


def compared_levels() -> Iterator[str]:
    """Check that only ``sandbox/`` compares names of isolation levels; elsewhere the declared guarantees decide."""
    for file in _modules():
        if PACKAGE / "sandbox" in file.parents or HOSTILE in file.parents:
            continue
        for node in ast.walk(_tree(file)):
            if isinstance(node, ast.Compare | ast.MatchValue):
                words = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)}
                for level in LEVELS & words:
                    yield f"{_relative(file)}:{node.lineno}: compares with the isolation level {level!r}"


CHECKS = (
    dead_links,
    dead_paths_on_pages,
    dead_paths_in_architecture,
    dead_paths_in_code,
    verbs_without_docs,
    commands_that_fail,
    commands_in_code_that_fail,
    public_names_without_docs,
    arguments_that_are_none,
    environments_without_docs,
    attacks_without_tests,
    errors_without_meaning,
    stale_tables,
    numbers_without_command,
    layers_in_architecture,
    libraries_missing_in_contracts,
    import_cycles,
    imports_outside_of_packages,
    imports_of_the_client,
    vague_names,
    compared_levels,
)


def main() -> int:
    """Print the problems of all checks, and return 1 if there are any."""
    problems = [problem for check in CHECKS for problem in check()]
    sys.stdout.writelines(f"{problem}\n" for problem in problems)
    sys.stdout.write(f"{len(CHECKS)} checks of docs and layout, problems: {len(problems)}\n")
    return 1 if problems else 0


@cache
def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(_read(file))


@cache
def _modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


@cache
def _graph() -> grimp.ImportGraph:
    return grimp.build_graph("evopolicygym", include_external_packages=True, cache_dir=None)


def _contract(name: str) -> dict[str, Any]:
    contracts = tomllib.loads(_read(PYPROJECT))["tool"]["importlinter"]["contracts"]
    return next(contract for contract in contracts if contract["id"] == name)


@cache
def _known_paths() -> set[str]:
    """Return each path of the checkout, from the root and from each folder below."""
    tops = [ROOT / top for top in ("src", "tests", "docs", "benchmarks", "examples", "skills", "results/README.md")]
    tops += [path for path in ROOT.iterdir() if path.is_file()]
    paths = [path.relative_to(ROOT).parts for top in tops for path in [top, *top.rglob("*")]]
    return {"/".join(parts[start:]) for parts in paths for start in range(len(parts))}


def _relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _place(page: Path, offset: int) -> str:
    return f"{_relative(page)}:{_read(page)[:offset].count(chr(10)) + 1}"


def _file_of(module: str) -> str:
    path = ROOT / "src" / module.replace(".", "/")
    return _relative(path / "__init__.py" if path.is_dir() else path.with_suffix(".py"))


def _without_fences(page: Path) -> str:
    return without_fences(_read(page))


def _inline_code(page: Path) -> Iterator[Snippet]:
    for found in INLINE.finditer(_without_fences(page)):
        yield Snippet(found.start(1), found[1])


def _shell_lines(page: Path) -> Iterator[Snippet]:
    for fence in FENCE.finditer(_read(page)):
        if fence[1] == "sh":
            for line in re.finditer(r"(?:.*\\\n)*.+", fence[2]):
                yield Snippet(fence.start(2) + line.start(), line[0].replace("\\\n", " "))


@cache
def _anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    anchors = {slug for _, slug in slugs(_read(page))}
    return anchors | set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", _read(page)))


def _docstrings_and_comments(file: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(_tree(file)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
    for number, line in enumerate(_read(file).splitlines(), 1):
        if found := re.search(r"(?:^\s*|  )#(.*)", line):
            yield number, found[1]


@cache
def _program() -> TyperGroup:
    program = get_command(app)
    if not isinstance(program, TyperGroup):
        raise TypeError(program)
    return program


def _verbs() -> dict[str, Any]:
    return {name: _program().commands[name] for name in sorted(_program().commands)}


def _options(command: Any) -> set[str]:  # noqa: ANN401 - a Click command, for which Typer has no public type
    """Return the long options of a verb and of the verbs below it."""
    below = getattr(command, "commands", {}).values()
    own = {name for option in command.params for name in option.opts if name.startswith("--")}
    return own.union(*(_options(verb) for verb in below))


def _faults(line: str) -> Iterator[str]:
    """Yield what is wrong with the verb and the options of a command."""
    words = line.partition(" -- ")[0]
    first = words.split()[0]
    command: Any = _program()
    if re.fullmatch(r"[a-z][a-z-]*", first):
        if first not in _verbs():
            yield f"no verb {first}"
            return
        command = _verbs()[first]
        second = "".join(words.split()[1:2])
        command = getattr(command, "commands", {}).get(second, command)
    for option in OPTION.findall(words):
        if option not in {*_options(command), "--help"}:
            yield f"no option {option}"


if __name__ == "__main__":
    sys.exit(main())
