"""What pages have a reader type works as it stands: page by page, in order, in a directory and a home of its own.

``page_reader.py`` reads and types. The tables say what is done otherwise, and why.
"""

import json
import re
import tomllib
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest

from evopolicygym.checks import KINDS
from page_blocks import LANGUAGES, PAGES, ROOT, Command, blocks, commands
from page_reader import Reader, Rule
from ray_clusters import two_nodes

pytestmark = pytest.mark.nightly

FEW_HIDDEN = "--validation 1 --held-out 1"
FEW = f"--budget 4 {FEW_HIDDEN}"
OWN_PARTS = (
    *(f"evopolicygym check {kind} my_{kind}" for kind in KINDS),
    "evopolicygym run my_environment",
    "evopolicygym run * my_agent",
    "evopolicygym run * my_sandbox",
    "evopolicygym run * my_executor",
    "evopolicygym run * my_tracker",
    "evopolicygym export my_exporter *",
    "evopolicygym report * my_figure",
    "evopolicygym diagnose * my_diagnostic",
)
"""Uses of the packages that ``evopolicygym new`` writes on the pages before."""
RULES = (
    Rule("git clone ADDRESS *", "who publishes fills in the address; CI clones", run=False),
    Rule("make run", "installs, and then runs the command of docs/use/viewer.md; CI does so", run=False),
    Rule("make install", "installs; CI does so", run=False),
    Rule("make test", "runs these very tests; CI does so", run=False),
    Rule("python3 -m venv .venv && . .venv/bin/activate", "begins an installation; CI does so by make", run=False),
    Rule("pip install -c constraints.txt -e *", "takes minutes and a package index; CI does so by make", run=False),
    Rule("pip install -e ./my_*", "installs; tests/checks/test_new_package.py does so", run=False),
    *(Rule(use, "takes an installation; tests/checks/test_new_package.py does so", run=False) for use in OWN_PARTS),
    Rule("evopolicygym run my_package*:Walk*", "stands for any package; test_registered_ids.py does so", run=False),
    Rule("evopolicygym.run(Walk)*", "goes on with what a notebook defines", run=False),
    Rule("npm install -g *", "takes an npm registry, and installs for all of a machine", run=False),
    Rule("ray start *", "takes several machines; two nodes on this one stand for them", run=False),
    Rule("evopolicygym check executor ray *", "Ray is an extra", needs="ray"),
    Rule("evopolicygym run * --executor ray *", "Ray is an extra", needs="ray", options=FEW),
    Rule("PYTHONPATH=. evopolicygym anchors walk.toml", "takes minutes on a busy machine", options="--cases 4"),
    Rule("evopolicygym train baseline *", "trains for a minute", needs="stable_baselines3", options="--episodes 2"),
    Rule(
        "python benchmarks/train_baselines.py OUT",
        "trains for a day",
        needs="stable_baselines3",
        options="--environment reacher --episodes 2 --minutes 0 --held-out 1",
    ),
    Rule("evopolicygym run * --option project=OUT/*", "plays what was trained", needs="stable_baselines3"),
    Rule("evopolicygym run reacher --agent policy *", "plays what was trained", needs="stable_baselines3"),
    Rule("evopolicygym run reacher", "takes a minute on a busy machine", options=FEW),
    Rule("evopolicygym run acrobot", "takes a minute on a busy machine", options=FEW),
    Rule("evopolicygym run acrobot --policy-packages *", "takes a minute on a busy machine", options=FEW),
    Rule("evopolicygym run acrobot --track trackio", "takes a minute on a busy machine", options=FEW),
    Rule("evopolicygym run cartpole --* --runs ablation", "takes minutes on a busy machine", options=FEW),
    Rule("evopolicygym run cartpole *--runs texts", "takes a minute on a busy machine", options=FEW),
    Rule("evopolicygym run parking *", "takes a minute on a busy machine", options=FEW_HIDDEN),
    Rule("evopolicygym run acrobot -- python3 *", "takes a minute on a busy machine", options=FEW_HIDDEN),
    Rule("evopolicygym run * --agent neutral *", "the scripted model makes no use of more", options=FEW),
    Rule("evopolicygym run acrobot --split public --json", "takes a minute on a busy machine", options=FEW),
    Rule("evopolicygym run acrobot --agent random_search", "takes a minute on a busy machine", options=FEW),
    Rule("evopolicygym run acrobot --agent tuner", "takes a minute on a busy machine", options=FEW),
    Rule("evopolicygym run acrobot --agent reference --budget 1", "plans for minutes", options=FEW),
    Rule("from datasets import load_dataset", "the library is in no extra of ours", needs="datasets"),
    Rule("evopolicygym run * --agent gepa *", "GEPA is an extra", needs="gepa", options=FEW),
    Rule("evopolicygym run * --agent openevolve *", "OpenEvolve is an extra", needs="openevolve", options=FEW),
    Rule("evopolicygym run * --agent codex *", "a stand-in for Codex has no use for more", options=FEW),
    Rule("evopolicygym run --config run.toml", "a stand-in for Codex has no use for more", options=FEW),
    Rule("evopolicygym suite core16 --agent codex*", "plays for hours", options=f"--environment acrobot {FEW}"),
    Rule("evopolicygym suite thinking.toml", "plays for hours", options=f"--environment acrobot {FEW}"),
    Rule(
        "evopolicygym suite core16 --agent tuner --repeats 3", "plays for hours", options=f"--environment reacher {FEW}"
    ),
    Rule("evopolicygym suite tuning *", "plays for hours", options=f"--environment reacher {FEW}"),
    Rule("evopolicygym run NAME --agent reference *", "plays for minutes", options="--held-out 4"),
    Rule("evopolicygym verify --replay results/*", "another processor may round differently", codes=(0, 6)),
    Rule("evopolicygym verify --replay --agent *", "asks a model again; tests/agents/test_agent_replay.py", run=False),
    Rule("evopolicygym suite results/examples/*", "asks models for hours; tests/agents/test_real_model.py", run=False),
    Rule("evopolicygym view", "serves until Ctrl-C", until=r"token=\S+"),
    Rule("PYTHONPATH=. evopolicygym packs check *", "takes bubblewrap, which a machine may lack", codes=(0, 4)),
    Rule("inspect eval *", "asks a model over a network; tests/inspect_tasks plays it with a mock", run=False),
    Rule("inspect eval-*", "asks a model over a network; tests/inspect_tasks does so with a mock", run=False),
    Rule("inspect view", "serves until Ctrl-C, and is Inspect's own", run=False),
    Rule("evopolicygym serve acrobot", "serves until Ctrl-C", until=r"judge\.env", codes=(130,)),
    Rule("evopolicygym mcp *", "serves until its client leaves; test_outside_runs.py does so", run=False),
    Rule("evopolicygym enter latest", "takes a terminal; test_shell_in_a_terminal.py does so", run=False),
    Rule("evopolicygym run * --interactive *", "takes a terminal; test_shell_in_a_terminal.py does so", run=False),
    Rule("evopolicygym serve --resume latest", "the run above is still served; test_serve_verb.py does so", run=False),
)
"""One or more of them may hold for a command; all others are run as they stand."""

WORDS = {
    "README.md": {"M": "scripted", "VARIABLE": "MODEL_KEY"},
    "docs/use/agents.md": {"my_package.my_module:make": "evopolicygym.agents.builtin.random_search:make"},
    "docs/measure/baselines.md": {"OUT": "trained", "NAME": "reacher", "BUDGET": "2-episodes-seed-0"},
    "docs/reference/neutral.md": {"NAME": "scripted"},
    "docs/extend/optimisers.md": {"NAME": "scripted"},
    "docs/measure/references.md": {"NAME": "continuous_car"},
}
"""What a reader of a page puts for its words in capitals.

On all pages RUN is the newest run, as is RUN_B, and RUN_A the one before; TOKEN and PORT are those of the viewer that
was started, URL and OpenAI's address those of the model.
"""

TWO_RUNS = [
    f"evopolicygym run acrobot --agent {agent} --budget 4 --validation 2 --held-out 2" for agent in ("random", "tuner")
]
OPENAI_KEY = "export OPENAI_API_KEY=sk-of-nobody"
BEFORE = {
    "docs/use/agents.md": [
        "mkdir baselines",
        "cp -r $(ls -d results/baselines/policy/acrobot/*/checkpoints/* | head -n 1) baselines/acrobot",
    ],
    "docs/reference/command_line.md": [OPENAI_KEY],
    "docs/use/data.md": TWO_RUNS,
    "docs/measure/audit.md": TWO_RUNS,
    "docs/measure/diagnostics.md": TWO_RUNS,
    "docs/use/films.md": TWO_RUNS,
    "docs/measure/headroom.md": TWO_RUNS,
    "docs/measure/leaderboard.md": TWO_RUNS,
    "docs/measure/small_models.md": TWO_RUNS,
    "docs/use/model_proxy.md": [OPENAI_KEY],
    "docs/use/report.md": TWO_RUNS,
    "docs/use/suites.md": [OPENAI_KEY],
}
"""What a reader of a page has done before."""

CLUSTER = "docs/use/cluster.md"
READ = {page: [command for block in blocks(page) for command in commands(block)] for page in PAGES}
"""The commands of every page, in order."""


def rules(command: Command) -> list[Rule]:
    """Return the rules that hold for a command."""
    return [rule for rule in RULES if rule.holds_for(command)]


def is_run(command: Command) -> bool:
    """Return whether a command is run, where what it needs is installed."""
    return all(rule.run for rule in rules(command))


@pytest.mark.parametrize("page", [page for page, found in READ.items() if any(map(is_run, found))])
def test_the_commands_of_a_page_work_in_order(page: str, tmp_path: Path) -> None:
    """Each command of a page leaves as the page says, with the files and programs that it shows, from top to bottom."""
    missing = []
    with ExitStack() as stack:
        words = dict(WORDS.get(page, {}))
        if page == CLUSTER and find_spec("ray"):
            words["10.0.0.1:6379"] = stack.enter_context(two_nodes(tmp_path)).address
        reader = stack.enter_context(Reader(tmp_path, words))
        for text in [] if page == "README.md" else [". .venv/bin/activate", *BEFORE.get(page, ())]:
            reader.prepare(text)
        for block in blocks(page):
            if block.file:
                reader.write(block)
            for command in filter(is_run, commands(block)):
                held = rules(command)
                lacks = [rule.needs for rule in held if rule.missing]
                if lacks:  # what follows in its block stands on it
                    missing += [f"{command.place} needs {name}" for name in lacks]
                    break
                reader.run(command, held)
        reader.leave()
    if missing:
        pytest.skip(f"all else of the page worked; not installed: {', '.join(missing)}")


def test_every_fence_says_what_it_holds() -> None:
    """Commands are told from what is printed by the language behind the fence: ``sh`` is typed, ``text`` never."""
    unknown = [
        f"{page}:{block.line}: {block.language!r}"
        for page in PAGES
        for block in blocks(page)
        if block.language not in LANGUAGES
    ]

    assert unknown == []


def test_files_that_pages_show_can_be_read() -> None:
    """Every piece of TOML and JSON on a page is some."""
    found = [block for page in PAGES for block in blocks(page)]
    for block in found:
        if block.language == "toml":
            tomllib.loads(block.text)
        if block.language == "json":
            json.loads(block.text)

    assert {"json", "toml"} <= {block.language for block in found}


def test_no_table_says_what_no_page_has() -> None:
    """Each rule holds for some command, and each word that is replaced stands in a command of its page."""
    typed = [command for found in READ.values() for command in found]
    idle = [rule.command for rule in RULES if not any(rule.holds_for(command) for command in typed)]
    words = [
        (page, word)
        for page, replaced in WORDS.items()
        for word in replaced
        if not any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", command.text) for command in READ[page])
    ]

    assert idle == []
    assert words == []
    assert {page for page in BEFORE if not READ[page]} == set()


def test_the_extras_that_pages_install_are_there() -> None:
    """What isn't installed here by hand names extras that the package has."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = set(tomllib.load(file)["project"]["optional-dependencies"])
    texts = [command.text for found in READ.values() for command in found]
    named = {extra for text in texts for names in re.findall(r"\.\[([\w,]+)\]", text) for extra in names.split(",")}

    assert named
    assert named <= extras
