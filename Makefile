# Two commands do everything, set-up included: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
# Windows has another folder for programs.
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
STAMP := $(VENV)/.installed

.PHONY: setup demo test lint docs oldest package clean clean-kernels

setup: $(STAMP)

$(STAMP): pyproject.toml lab/pyproject.toml scorer/pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("rankwright needs Python 3.11 or newer; set PYTHON=...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all,dev]' --editable lab --editable scorer
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

# A few tests with the oldest supported version of every dependency.
oldest: setup
	$(BIN)/python tools/oldest_versions.py --core build/oldest

# The wheels and the source distributions, as they are released.
package: setup
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m build --outdir dist scorer
	$(BIN)/python -m twine check --strict dist/*

clean:
	rm -rf $(VENV) build dist site .cache demo-run .pytest_cache .mypy_cache .ruff_cache

clean-kernels:
	find src lab/src -name '*.nbi' -delete
	find src lab/src -name '*.nbc' -delete
