# Two commands matter: `make demo` and `make test`. Both work on a bare machine with
# Python 3.11+, a C++ compiler and make; everything else comes from the Python package index.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
NATIVE := CMakeLists.txt pyproject.toml $(wildcard native/*.* native/*/*)
BUILT  := $(NATIVE) lab/pyproject.toml
SOURCES := $(filter %.cpp %.h,$(NATIVE)) $(wildcard src/robirank/latent/gpu/cuda/*)
PIP    := $(BIN)/python -m pip --disable-pip-version-check

# Targets share one environment, so they are made one after the other.
.NOTPARALLEL:
.PHONY: demo test lint types docs check format bench card sanitize fuzz clean help

help:  ## Show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 10

demo: $(VENV)/.demo  ## Train RoBiRank on generated data, compare, recommend, write a report
	$(BIN)/robirank demo

test: $(VENV)/.test  ## Set up and run the whole test suite
	$(BIN)/python -m pytest

lint: $(VENV)/.dev  ## Check style (ruff, clang-format) and who imports whom (import-linter)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run --Werror $(SOURCES)

types: $(VENV)/.dev  ## Check types (mypy, strict)
	$(BIN)/mypy

docs: $(VENV)/.dev  ## Build the documentation, warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

check: lint types docs test  ## Everything that CI runs

format: $(VENV)/.dev  ## Rewrite the sources in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(SOURCES)

sanitize: build/sanitize/.built  ## Run the native tests with AddressSanitizer and UBSan (long)
	$(SANITIZED) $(BIN)/python tests/sanitized.py build/sanitize/site/robirank $(NATIVE_TESTS)

fuzz: $(VENV)/.test  ## Fuzz every door for SECONDS (60) with a SEED (1)
	PYTHONPATH=tests $(BIN)/python -m fuzz --seconds $(or $(SECONDS),60) --seed $(or $(SEED),1)
	PYTHONPATH=tests $(BIN)/python -m serve.fuzz --requests $(or $(REQUESTS),20000) --seed $(or $(SEED),1)

card: $(VENV)/.card  ## On a machine with a graphics card: its tests and a small benchmark
	$(BIN)/robirank --version --verbose
	$(BIN)/python -m pytest -q tests/gpu tests/latent/test_device.py
	$(BIN)/python benchmarks/gpu.py --parts check topk

bench: $(VENV)/.bench  ## Run every benchmark (long)
	@for script in benchmarks/[a-z]*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

clean:  ## Remove the environment and everything built
	rm -rf $(VENV) build site dist src/robirank/_core.pyi .pytest_cache .mypy_cache .ruff_cache .hypothesis demo-output

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "robirank needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@command -v $${CXX:-c++} >/dev/null || { echo "robirank needs a C++17 compiler (g++ or clang++)" >&2; exit 1; }
	@echo "== creating $(VENV)"
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "could not make a virtual environment; on Debian: apt-get install python3-venv python3-dev" >&2; exit 1; }

# The module once more, with sanitizers, in a folder of its own. Python itself is built without, so
# their libraries must be loaded before it; leaks are its own business.
GCC_FILE      = $(shell $${CXX:-c++} -print-file-name=$(1))
SANITIZED     = LD_PRELOAD="$(call GCC_FILE,libasan.so) $(call GCC_FILE,libubsan.so) $(call GCC_FILE,libstdc++.so)" \
  ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
NATIVE_TESTS := tests/test_core.py tests/test_sparse.py tests/data/test_letor.py tests/data/test_splits.py \
  tests/objectives tests/latent/solvers tests/latent/factors/test_topk.py tests/latent/factors/test_rules.py \
  tests/latent/factors/test_variety.py tests/ltr/test_list_metric.py tests/ltr/test_ranksvm.py \
  tests/ltr/test_rankboost.py tests/fuzz

build/sanitize/.built: $(NATIVE) | $(VENV)/.test
	@echo "== building robirank with AddressSanitizer and UBSan (a few minutes)"
	rm -rf build/sanitize/site
	$(PIP) install --no-deps --target build/sanitize/site . -C build-dir=build/sanitize/cmake \
	  -C cmake.define.ROBIRANK_SANITIZE=address,undefined -C install.strip=false
	@touch $@

# One stamp for each set of extras; a larger set makes the smaller ones up to date too.
$(VENV)/.demo: $(BUILT) | $(BIN)/python
	@echo "== building and installing robirank (a minute or two the first time)"
	$(PIP) install --progress-bar on -e '.[serve]' -e ./lab
	@touch $@

$(VENV)/.test: $(BUILT) | $(BIN)/python
	@echo "== building and installing robirank with what the tests need (a few minutes the first time)"
	$(PIP) install --progress-bar on -e '.[test]' -e './lab[peers]'
	@touch $(VENV)/.demo $@

$(VENV)/.bench: $(BUILT) | $(BIN)/python
	@echo "== building and installing robirank with the packages it is compared with"
	$(PIP) install --progress-bar on -e '.[test,bench]' -e './lab[peers,boosters]'
	@touch $(VENV)/.demo $(VENV)/.test $@

$(VENV)/.card: $(BUILT) | $(BIN)/python
	@echo "== building and installing robirank with what the tests on a card need (a few minutes the first time)"
	$(PIP) install --progress-bar on -e '.[test,gpu]' -e './lab[peers]'
	@touch $(VENV)/.demo $(VENV)/.test $@

$(VENV)/.dev: $(BUILT) | $(BIN)/python
	@echo "== building and installing robirank with the developers' tools (a few minutes the first time)"
	$(PIP) install --progress-bar on -e '.[dev]' -e './lab[peers]'
	@touch $(VENV)/.demo $(VENV)/.test $@
