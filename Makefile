# `make demo` and `make test` do all their own set-up: a virtual environment in .venv, with what pyproject.toml names.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo fuzz test lint clean
.DEFAULT_GOAL := help

help:  ## Show what there is to make
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(STAMP)  ## Train a PHM Transformer on the built-in corpus, score it, translate a sentence (about 5 minutes)
	$(BIN)/phmrun train nmt --layer phm --n 8 --runs-dir runs/demo
	@echo "The old teacher who the children admire calls the girl up:"
	@echo "The old teacher who the children admire calls the girl up." | $(BIN)/phmrun predict latest --runs-dir runs/demo --quiet

test: $(STAMP) lint  ## Run all checks: ruff, mypy, pytest with coverage
	$(BIN)/python -m pytest --cov=phmrun --cov-report=term:skip-covered

fuzz: $(STAMP)  ## Feed damaged input to every reader for half a minute; FUZZ="--tries 100000" for hours
	$(BIN)/python -m tests.fuzz $(FUZZ)

lint: $(STAMP)  ## Run ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:  ## Remove the virtual environment and build products; runs stay
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .coverage
