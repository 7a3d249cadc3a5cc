# Two commands do everything, set-up included: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup demo test lint docs clean clean-kernels

setup: $(STAMP)

$(STAMP): pyproject.toml lab/pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("rankwright needs Python 3.11 or newer; set PYTHON=...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all,dev]' --editable lab
	touch $(STAMP)

demo: setup
	$(BIN)/rankwright demo

test: setup
	$(BIN)/python -m pytest -n auto --dist loadfile

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

docs: setup
	$(BIN)/python -m zensical build --strict

clean:
	rm -rf $(VENV) build dist site .cache demo-run .pytest_cache .mypy_cache .ruff_cache

clean-kernels:
	find src lab/src -name '*.nbi' -delete
	find src lab/src -name '*.nbc' -delete
