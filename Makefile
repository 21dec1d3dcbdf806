# `make demo` and `make test` do all their own set-up, in .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints.txt

.PHONY: help demo test check bench matrix docs clean

help:
	@echo "make demo    install, run demo.ipynb in a real kernel, write build/demo.html"
	@echo "make test    install, then lint, types, import contracts and all tests"
	@echo "make bench   measure the cost, write docs/performance.md"
	@echo "make matrix  run the shell tests on IPython 7.34, 8 and 9"
	@echo "make docs    write docs/rules from the rules"

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --upgrade pip
	$(INSTALL) --editable . --group tests --group checks
	@touch $@

demo: $(VENV)/installed
	$(BIN)/python docs/run_demo.py

test: $(VENV)/installed check matrix
	$(BIN)/python -m pytest

check: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/write_rules.py --check

bench: $(VENV)/installed
	$(BIN)/python benchmarks/run.py --write docs/performance.md

matrix: $(VENV)/installed
	$(BIN)/python tests/matrix.py

docs: $(VENV)/installed
	$(BIN)/python docs/write_rules.py

clean:
	rm -rf $(VENV) build dist
