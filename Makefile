# `make demo` and `make test` do all their own set-up: a virtual environment in .venv, with what pyproject.toml names.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What users need, and what tests need as well.
CORE := $(VENV)/.core
STAMP := $(VENV)/.installed
# Empty environment for the built wheel.
EMPTY := build/empty
# The oldest release of transformers that is supported, with what it needs in place of the installed releases.
OLDEST := build/transformers-4.57
# A worker per core, each with one thread and its half of the files, whose tests share what they train; who is done
# takes over what others have left. Compiled modules are kept, since most of the time goes into starting programs.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses=logical --dist=worksteal
QUICK := tests/config tests/decoding tests/layers tests/metrics tests/text
CHANGED = $(shell git diff --name-only --diff-filter=d HEAD -- 'tests/**/test_*.py')

# Python compiles a module when it is first imported: pip would compile all of them, most of which nobody imports.
UV := $(shell command -v uv)
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL = $(if $(UV),$(UV) pip install --quiet --python $(1)/bin/python,$(PIP) --python $(1)/bin/python install --quiet --no-compile)

.PHONY: demo docs results fuzz test test-all coverage oldest pins check core lint package wheel clean
.DEFAULT_GOAL := help

help:  ## Show what there is to make
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

$(CORE): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(call INSTALL,$(VENV)) -c constraints.txt torch -e .
	@touch $@

$(STAMP): $(CORE)
	$(call INSTALL,$(VENV)) -c constraints.txt -e '.[dev,docs]' build twine
	@touch $@

SENTENCE := The old dog is in the garden.
demo: $(CORE)  ## Train a small PHM Transformer on the built-in corpus, score it, translate a sentence (one to three minutes)
	$(BIN)/phmrun train nmt --config configs/nmt/demo.yaml --layer phm --n 4 --runs-dir runs/demo
	@echo
	@echo "Shown: a Transformer whose blocks' weight matrices have a quarter of the numbers; its embeddings are plain ones."
	@echo "Compare test/bleu with the column dictionary, which needs no model. Next, with . $(VENV)/bin/activate:"
	@echo "  phmrun train nmt --config configs/nmt/demo.yaml --layer dense --runs-dir runs/demo   the same with plain matrices"
	@echo "  phmrun runs list --runs-dir runs/demo                                                both, side by side"
	@echo "  phmrun train nmt --layer phm --n 4                                                   the full setting, minutes"
	@echo; echo "$(SENTENCE)"
	@echo "$(SENTENCE)" | $(BIN)/phmrun predict latest --runs-dir runs/demo --quiet

test: $(STAMP)  ## Run the tests that protect a change (three to six minutes on two cores)
	$(PYTEST) -m "not long" -rs --durations=10 --require-packages

test-all: $(STAMP)  ## Run everything: test, lint, long tests, fuzz, oldest transformers, docs, the wheel (8 to 18 minutes on two cores)
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint oldest package docs fuzz
	$(PYTEST) -m long -rs --durations=10 --require-packages
	@$(MAKE) --no-print-directory wheel

oldest: $(OLDEST)  ## Run the tests of transformers with its oldest supported release
	PYTHONPATH=$(OLDEST) OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/layers/test_hugging_face.py tests/exchange/test_huggingface.py tests/tasks/lm/test_lm_hugging_face.py tests/families/test_classification_hugging_face.py

$(OLDEST): $(STAMP)
	$(call INSTALL,$(VENV)) --upgrade --target $@ --no-deps \
	  transformers==4.57.6 huggingface-hub==0.36.2 tokenizers==0.22.2
	@touch $@

pins: $(STAMP)  ## Write what is installed into constraints.txt
	@{ grep '^#' constraints.txt; $(BIN)/pip freeze --exclude-editable --exclude phmrun | sed 's/+cpu$$//'; } \
	  > constraints.txt.new && mv constraints.txt.new constraints.txt

coverage: $(STAMP)  ## Run pytest and report which lines it reaches; takes about twice as long
	$(PYTEST) --cov=phmrun --cov-report=term:skip-covered

check: $(STAMP)  ## Run the quick checks, side by side: ruff, mypy, the tests of the core and those changed since the last commit
	@$(MAKE) --no-print-directory --jobs=2 lint core

core: $(STAMP)
	$(PYTEST) -rs -m "not long" $(QUICK) $(CHANGED)

fuzz: $(STAMP)  ## Feed damaged input to every reader for half a minute; FUZZ="--tries 100000" for hours
	$(BIN)/python -m tests.fuzz $(FUZZ)

results: $(STAMP)  ## Make RESULTS.md of the files under results/; trains nothing, needs no data
	$(BIN)/python results/build.py
	$(BIN)/phmrun verify results

docs: $(STAMP)  ## Build the documentation, strictly, into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

lint: $(STAMP)  ## Run ruff, mypy and the check of wording
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m tests.words

package: $(EMPTY)/.installed  ## Build wheel and sdist into dist/, check them, and install the wheel in an empty environment
	cd build && empty/bin/phmrun count-params nmt --layer phm --n 8

$(EMPTY)/.installed: $(STAMP) $(shell git ls-files phmrun tasks configs pyproject.toml README.md)
	rm -rf dist build/lib build/bdist* $(EMPTY)
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	$(PYTHON) -m venv --without-pip $(EMPTY)
	$(call INSTALL,$(EMPTY)) -c constraints.txt torch dist/*.whl
	@touch $@

wheel: $(EMPTY)/.installed  ## Train, score and plan with the installed wheel, all six tasks
	$(PYTEST) tests/wheel/installed.py

clean:  ## Remove the virtual environment and build products; runs stay
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .coverage
