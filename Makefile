# make demo   the whole job once, on this machine
# make test   the tests
# Needs Python 3.10 or newer and make; PYTHON=python3.12 picks another one.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet install -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test peers test-peers lint types audit docs dashboards proto bench fuzz fmt clean

help: ## show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

demo: $(VENV)/.installed ## run the whole job once and show every account
	@$(BIN)/turnavoid demo

test: $(VENV)/.installed-dev ## run the tests
	@$(BIN)/python -m pytest

peers: ## fetch and build the Collector, Jaeger and Prometheus into .peers (needs Go)
	@peers/build.sh

test-peers: $(VENV)/.installed-dev ## run the tests beside real programs; needs `make peers`
	@$(BIN)/python -m pytest tests/peers

lint: $(VENV)/.installed-dev ## check style
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev ## check types
	@$(BIN)/mypy

fmt: $(VENV)/.installed-dev ## format, and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

audit: $(VENV)/.installed-dev ## check dependencies for known vulnerabilities
	@$(BIN)/python .ci/audit.py

docs: $(VENV)/.installed-dev ## write the tables of README.md and docs/operations.md anew
	@$(BIN)/python tests/test_readme.py
	@$(BIN)/python tests/collector/test_telemetry.py

dashboards: $(VENV)/.installed-dev ## write dashboards and alert rules of otel_turnavoid/dashboards anew
	@$(BIN)/python -m dashboards

proto: $(VENV)/.installed-dev ## generate otel_turnavoid/_proto from proto/
	@$(BIN)/python proto/generate.py

bench: $(VENV)/.installed-dev ## measure; see benchmarks/README.md
	@for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

FUZZ ?=
FUZZ_SECONDS ?= 60
fuzz: $(VENV)/.installed-dev ## fuzz every target for a minute, or FUZZ=TARGET for FUZZ_SECONDS
	@$(PIP) -e '.[dev,fuzz]'
	@$(BIN)/python -m fuzz --seconds $(FUZZ_SECONDS) $(FUZZ)

clean: ## remove the environment and everything generated that is not committed
	rm -rf $(VENV) .peers .fuzz test-artifacts build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment with the tools serves for everything else too.
$(VENV)/.installed: pyproject.toml constraints.txt
	@$(MAKE) --no-print-directory $(BIN)/python
	$(PIP) -e .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt
	@$(MAKE) --no-print-directory $(BIN)/python
	$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/.installed

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
