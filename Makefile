# Every target makes the virtual environment it needs. `make demo` and `make test` are all that a newcomer types.
VENV ?= .venv
PYTHON ?= $(shell scripts/find-python 3.11)
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP_QUIET ?= -q
# Tests wait for servers half of their time, so there is one more at work than there are cores.
export JOBS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) + 1)

.DEFAULT_GOAL := help
.PHONY: help demo test test-unit test-engine test-python312 test-long fuzz aa-batch check format bench docs clean

help: ## show this list
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

$(READY): pyproject.toml
	@test -n "$(PYTHON)" || { echo "servesmith needs Python 3.11 or newer and found none: install it, or say make PYTHON=/path/to/python"; exit 1; }
	@echo "setting up $(VENV) with $(PYTHON)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install $(PIP_QUIET) --disable-pip-version-check -e '.[local,dev]'
	@touch $@

demo: $(READY) ## tune a real model on this machine and prove the gain (within ten minutes on 2 cores)
	$(BIN)/servesmith demo

test: check test-unit test-engine test-python312 ## set up and run everything that CI runs

check: $(READY) ## formatting, lint, types and import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports

test-unit: $(READY) ## tests without a real engine, on all cores
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m 'not engine and not alone'
	$(BIN)/python -m pytest -m 'alone and not engine'

test-engine: $(READY) ## tests on the real embedded engine, one at a time; shortened where they say so
	$(BIN)/python -m pytest -m 'engine and not long'

test-python312: ## unit tests on Python 3.12 too, where there is one
	@scripts/test-on-python312

test-long: $(READY) ## long forms: 20 A/A comparisons, whole demo from the wheel
	$(BIN)/python -m pytest -m long --timeout=7200

fuzz: $(READY) ## 250,000 responses through the decoders and through slow ones that must say the same (minutes)
	$(BIN)/python tests/unit/load/fuzz.py --cases 250000

format: $(READY) ## format and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

aa-batch: $(READY) ## 20 comparisons of a recipe with itself on the real engine (about 15 minutes)
	$(BIN)/python benchmarks/aa_batch.py --looks 4 --out docs/evidence/aa-batch.json

bench: $(READY) ## measured comparisons, by hand: nothing here is a test
	@for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

docs: $(READY) ## write the generated parts of docs/ anew
	$(BIN)/python scripts/generate_docs.py

clean: ## remove what make made
	rm -rf $(VENV) .venv312 build dist
