# The environment is created on first use; the other targets depend on it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := .venv-peers

.DEFAULT_GOAL := help
.PHONY: help run test test-all test-exhaustive coverage check bench bench-against bench-peers docs docs-serve clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml constraints.txt
	@echo "creating the environment in $(VENV): about two minutes, once"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

run: $(READY) ## run the default experiment; ARGS="algorithm=fedavg pan.A=0.05" overrides settings
	@$(BIN)/python -m fedpan_exp $(ARGS)

test: $(READY) ## run the fast tests in parallel (ARGS="-k pan" selects)
	$(BIN)/python -m pytest -n auto --dist worksteal $(ARGS)

test-all: $(READY) ## run the slow tests too, and those that download data
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not exhaustive" $(ARGS)

test-exhaustive: $(READY) ## run what test-all leaves out: torchrun processes that hang, in every phase of a round
	$(BIN)/python -m pytest -n auto --dist worksteal -m exhaustive $(ARGS)

coverage: $(READY) ## run these tests and print the share of lines in fedpan_exp/ that they run
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not exhaustive" --cov $(ARGS)

check: $(READY) ## check formatting, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/hadolint Dockerfile

bench: $(READY) ## measure speed and memory relative to a plain torch loop (ARGS="rounds ranks" selects parts)
	$(BIN)/python -m benchmarks $(ARGS)

bench-against: $(READY) ## is this checkout slower than OTHER=../before? rounds of both in turns (ARGS="moon" selects jobs)
	$(BIN)/python -m benchmarks.against $(OTHER) $(ARGS)

$(PEERS)/.ready: benchmarks/peers/requirements.txt
	@echo "creating the environment of the other simulators in $(PEERS): 2 GB, about three minutes, once"
	@$(PYTHON) -m venv $(PEERS)
	@$(PEERS)/bin/python -m pip install -qq --disable-pip-version-check -r $<
	@touch $@

bench-peers: $(READY) $(PEERS)/.ready ## the same rounds in Flower, pfl, fluke and BlazeFL, as ratios (ARGS="mlp64 vgg9"; PYTHON=python3.12 for BlazeFL)
	$(BIN)/python -m benchmarks.peers $(PEERS)/bin/python $(ARGS)

docs: $(READY) ## build the documentation in site/ (offline; warnings are errors)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

docs-serve: $(READY) ## show the documentation at http://127.0.0.1:8000, rebuilt when it changes
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

clean: ## remove the environments and caches (data and runs stay)
	rm -rf $(VENV) $(PEERS) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist site *.egg-info
