# The environment is made on first use; every other target builds on it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := .venv-peers

.DEFAULT_GOAL := help
.PHONY: help run test test-all check bench bench-peers clean

help: ## say what each target does
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml constraints.txt
	@echo "making the environment in $(VENV): about two minutes, once"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

run: $(READY) ## run the default experiment; ARGS="algorithm=fedavg pan.A=0.05" overrides settings
	@$(BIN)/python -m fedpan_exp $(ARGS)

test: $(READY) ## the fast tests, in parallel (ARGS="-k pan" chooses)
	$(BIN)/python -m pytest -n auto $(ARGS)

test-all: $(READY) ## every test, also slow ones and those that fetch real data
	$(BIN)/python -m pytest -n auto -m "slow or not slow" $(ARGS)

check: $(READY) ## formatting, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(READY) ## speed and memory against a plain torch loop, as ratios (ARGS="rounds ranks": parts of it)
	$(BIN)/python -m benchmarks $(ARGS)

$(PEERS)/.ready: benchmarks/peers/requirements.txt
	@echo "making the environment of other simulators in $(PEERS): 2 GB, about three minutes, once"
	@$(PYTHON) -m venv $(PEERS)
	@$(PEERS)/bin/python -m pip install -qq --disable-pip-version-check -r $<
	@touch $@

bench-peers: $(READY) $(PEERS)/.ready ## the same round in Flower, pfl and fluke, as ratios (ARGS="mlp64 vgg9": some jobs)
	$(BIN)/python -m benchmarks.peers $(PEERS)/bin/python $(ARGS)

clean: ## remove the environments and caches (data and runs stay)
	rm -rf $(VENV) $(PEERS) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist *.egg-info
