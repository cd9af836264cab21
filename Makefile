# `make help` lists the targets. Everything runs from .venv. What running needs, with all extras, comes from
# requirements.lock; the tools of development come on top of it, from requirements-dev.lock.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
STAMP := $(VENV)/.installed
TEST_JOBS ?= 4
INSTALL := VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip install --quiet
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate

.DEFAULT_GOAL := help
.PHONY: help up unit test lint format screenshots monitoring bench bench-dashboard chaos chaos-results chaos-cron chaos-alerts exactly-once growth scale steady zoo crawl fairness floods limits poison pressure storm mutants fuzz lock clean

help: # prints the groups and targets below, in their order
	@awk -F ':.*## ' '/^##@ /{printf "%s%s\n", (n++ ? "\n" : ""), substr($$0, 5)} /^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

$(BIN)/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Gnomon needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1); name another: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "uv>=0.5"

$(RUNTIME): requirements.lock pyproject.toml | $(BIN)/uv
	$(INSTALL) --require-hashes -r requirements.lock
	$(INSTALL) --no-deps -e .
	@touch $@

$(STAMP): requirements-dev.lock $(RUNTIME)
	$(INSTALL) --require-hashes -r requirements-dev.lock
	@touch $@

##@ Run

up: $(RUNTIME) ## Start Gnomon with its embedded PostgreSQL (Ctrl-C stops it)
	@exec $(BIN)/gnomon up

##@ Work on it

# Tests start hundreds of processes. Where compiled files are not kept, each of them compiles all that it imports:
# more than half of what it costs to start it.
unit test: export PYTHONDONTWRITEBYTECODE :=

unit: $(STAMP) ## Run the fast tests: no server, no process, under a minute
	$(BIN)/python -m pytest -n $(TEST_JOBS) --dist worksteal --hypothesis-profile quick tests/unit tests/conformance \
		--ignore tests/conformance/test_postgres_stores.py $(ARGS)

test: $(STAMP) ## Run all tests; they start the servers that they need
	$(BIN)/python -m pytest -n $(TEST_JOBS) --dist worksteal $(ARGS)

lint: $(STAMP) ## Check format, types, imports and dependencies
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry src

format: $(STAMP) ## Format the code the way `make lint` wants it
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

screenshots: $(STAMP) ## Take the pictures of the docs anew, of a seeded installation
	$(BIN)/python -m tests.dashboard.screenshots $(ARGS)

monitoring: $(STAMP) ## Make the alert rules and dashboards of deploy/ anew
	$(BIN)/python -m deploy.monitoring $(ARGS)

lock: $(STAMP) ## Resolve all lock files anew from pyproject.toml
	$(COMPILE) --all-extras --group dev pyproject.toml -o requirements-dev.lock
	$(COMPILE) --all-extras --constraints requirements-dev.lock pyproject.toml -o requirements.lock
	for peer in pgqueuer procrastinate bullmq; do \
		$(COMPILE) bench/peers/$$peer/requirements.in -o bench/peers/$$peer/requirements.lock || exit 1; done
	$(BIN)/python -m bench.peers.installing --lock

clean: ## Remove the environment and caches (data in .gnomon stays)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist

##@ Measure

# Where the peer cannot be installed, the rest is measured all the same, and the table says so. ARGS=peers installs the others.
bench: $(STAMP) ## Measure submission, drain and start delay on this machine; ARGS=peers: beside six peers
	-@$(BIN)/python -m bench.peers.installing pgqueuer
	$(BIN)/python -m bench $(ARGS)

bench-dashboard: $(STAMP) ## Measure the dashboard's pages over 2 000 000 tasks, and what 50 open ones cost
	$(BIN)/python -m bench dashboard $(ARGS)
	$(BIN)/python -m bench watching

fairness: $(STAMP) ## Measure who waits how long beside whose backlog; ARGS="starve weights --nodes 3"
	$(BIN)/python -m proof.fairness $(ARGS)

workflows: $(STAMP) ## Play random workflows on PostgreSQL beside the pure model of them; ARGS=500
	$(BIN)/python -m proof.workflows $(ARGS)

limits: $(STAMP) ## Try to exceed limits under load, kills and changes; ARGS="--seconds 300 --seed 1"
	$(BIN)/python -m proof.limits $(ARGS)

pressure: $(STAMP) ## Run a steady load beside old snapshots and cut connections; ARGS="reader --seconds 60"
	$(BIN)/python -m proof.pressure $(ARGS)

storm: $(STAMP) ## Count what subscribers are told of 10 000 dead letters in a minute; ARGS="--dead 20000"
	$(BIN)/python -m proof.storm $(ARGS)

poison: $(STAMP) ## Measure how long others wait when functions kill their node; ARGS="--killers 9"
	$(BIN)/python -m proof.poison $(ARGS)

##@ Prove

growth: $(STAMP) ## Claim path, drain and start delay against ROWS scheduled tasks, beside an empty table; ROWS=10000000 (5 GB)
	$(BIN)/python -m bench claim --rows $(or $(ROWS),1000000) $(ARGS)

scale: $(STAMP) ## Drain, sustained rate and start delay against rows, archived rows, tenants, nodes; ARGS="--archived 0,10000000 --plots build/plots"
	$(BIN)/python -m bench growth $(ARGS)

steady: $(STAMP) ## Run a steady load for 20 minutes beside open snapshots, judged by windows of 10 s; ARGS="--seconds 600 --rate 20000"
	$(BIN)/python -m bench steady $(ARGS)

chaos: $(STAMP) ## Kill, pause and disconnect everything under load, and check the result; ARGS="--seconds 1080 --seed 1 --ledger" or "--workers 3"
	$(BIN)/python -m proof.campaigns chaos $(ARGS)

chaos-results: $(STAMP) ## Kill, pause and restart everything while programs wait for results; ARGS="--seconds 60 --seed 1"
	$(BIN)/python -m proof.campaigns results $(ARGS)

chaos-cron: $(STAMP) ## Kill nodes while cron jobs fire; ARGS="--seconds 300 --jobs 500 --seed 1"
	$(BIN)/python -m proof.cron_chaos $(ARGS)

chaos-alerts: $(STAMP) ## Inject faults under a real Prometheus, and print which alerts each raises; ARGS="--short", ARGS="--only overload --json"
	$(BIN)/python -m proof.alerts $(ARGS)

exactly-once: $(STAMP) ## Kill workers, programs and relays over their own transactions, and count; ARGS="--increments 10000 --kills 100"
	$(BIN)/python -m proof.exactly_once $(ARGS)

zoo: $(STAMP) ## Plant known bugs, and check that the campaigns find each; ARGS="--only claims-early", ARGS=--control
	$(BIN)/python -m proof.campaigns zoo $(ARGS)

crawl: $(STAMP) ## Let two tenants, with keys of every kind, try every operation on each other; ARGS="--cases 10000 --seed 1 --jobs 2"
	$(BIN)/python -m proof.crawl $(ARGS)

floods: $(STAMP) ## Normal work beside floods of wrong keys and of connections; ARGS="--seconds 30 --json"
	$(BIN)/python -m proof.floods $(ARGS)

mutants: $(STAMP) ## Change copies of the code, and list changes no test notices; ARGS="--seed 1 --only cron --most 50"
	$(BIN)/python -m proof.mutants $(ARGS)

fuzz: $(STAMP) ## Compare the cron engine with an oracle and two libraries; ARGS="--triples 200000 --seed 1"
	$(BIN)/python -m proof.cron_oracle.fuzz $(ARGS)
