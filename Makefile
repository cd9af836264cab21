# `make help` lists the targets. Everything runs from .venv, which is made from requirements.lock.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PEER := $(VENV)/peer
TEST_JOBS ?= 4

.DEFAULT_GOAL := help
.PHONY: help up test lint format bench chaos chaos-cron zoo crawl fairness limits poison pressure mutants fuzz lock clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(BIN)/uv:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "uv>=0.5"

$(STAMP): requirements.lock pyproject.toml | $(BIN)/uv
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip install --quiet --require-hashes -r requirements.lock
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip install --quiet --no-deps -e .
	@touch $@

up: $(STAMP) ## Run Gnomon with its embedded PostgreSQL (Ctrl-C stops it)
	@exec $(BIN)/gnomon up

test: $(STAMP) ## Run all tests; the servers they need are started by the tests themselves
	$(BIN)/python -m pytest -n $(TEST_JOBS) --dist worksteal $(ARGS)

lint: $(STAMP) ## ruff, mypy strict, import contracts, unused dependencies
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry src

format: $(STAMP) ## Rewrite the code the way `make lint` wants it
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Where the peer cannot be installed, the rest is measured all the same, and the table says so.
$(PEER)/.installed: bench/requirements.lock | $(BIN)/uv
	-$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python $(PEER) && \
	VIRTUAL_ENV=$(CURDIR)/$(PEER) $(BIN)/uv pip install --quiet --require-hashes -r bench/requirements.lock && \
	touch $@

bench: $(STAMP) $(PEER)/.installed ## Measure submission, drain and start delay on this machine
	$(BIN)/python -m bench $(ARGS)

chaos: $(STAMP) ## Break everything under load, and judge; ARGS="--seconds 1080 --seed 1 --ledger"
	$(BIN)/python -m tests.system.proof chaos $(ARGS)

zoo: $(STAMP) ## Plant bugs, and see each of them found; ARGS="--only claims-early", ARGS=--control
	$(BIN)/python -m tests.system.proof zoo $(ARGS)

limits: $(STAMP) ## Exceed limits if you can: load, kills, edits; ARGS="--seconds 300 --seed 1"
	$(BIN)/python -m tests.system.limits $(ARGS)

chaos-cron: $(STAMP) ## Kill nodes while cron jobs fire; ARGS="--seconds 300 --jobs 500 --seed 1"
	$(BIN)/python -m tests.system.cron_chaos_main $(ARGS)

crawl: $(STAMP) ## Two tenants over every operation of the API; ARGS="--cases 10000 --seed 1"
	$(BIN)/python -m tests.system.crawl $(ARGS)

fairness: $(STAMP) ## Let tenants and priorities quarrel over slots; ARGS="starve weights --nodes 3"
	$(BIN)/python -m tests.system.fairness $(ARGS)

mutants: $(STAMP) ## Change copies of the code; which changes does no test notice? ARGS="--seed 1 --only cron --most 50"
	$(BIN)/python -m tests.mutants $(ARGS)

pressure: $(STAMP) ## Steady load beside old snapshots, cut connections, ...; ARGS="reader --seconds 60"
	$(BIN)/python -m tests.system.pressure $(ARGS)

poison: $(STAMP) ## Let a function kill its nodes, and see how long others wait; ARGS="--killers 9"
	$(BIN)/python -m tests.system.poison $(ARGS)

fuzz: $(STAMP) ## Compare cron with an oracle and two peers; ARGS="--triples 200000 --seed 1"
	$(BIN)/python -m tests.cron.fuzz $(ARGS)

lock: $(BIN)/uv ## Resolve both requirements.lock anew from pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate --group dev pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate --group pyproject.toml:bench -o bench/requirements.lock

clean: ## Remove the environment and caches (data in .gnomon stays)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
