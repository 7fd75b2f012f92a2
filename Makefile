# `make demo` and `make test` each work alone in a fresh clone; both leave .venv behind.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
SETUP := pyproject.toml setup.cfg constraints.txt
# one BLAS thread for each of two test processes: more only wait for each other
ONE_THREAD := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
PYTEST := SCIPY_ARRAY_API=1 $(ONE_THREAD) $(BIN)/pytest -n 2

.PHONY: demo test test-slow lint doc bench dist clean

demo: $(VENV)/.demo ## fit on real data, print a table, draw demo.png
	$(BIN)/python examples/demo.py

test: $(VENV)/.test ## all tests but the slow ones
	$(PYTEST) -m "not slow"

test-slow: $(VENV)/.test
	$(PYTEST) -m slow

lint: $(VENV)/.lint ## style, types and import layers (docstrings are checked by the tests)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

doc: $(VENV)/.doc ## HTML in doc/_build
	$(ONE_THREAD) $(BIN)/sphinx-build -W --keep-going -q -b html doc doc/_build

bench: $(VENV)/.demo
	$(BIN)/python benchmarks/bench_fit.py

dist: ## a wheel and an sdist, each installed in an empty environment and tested
	.ci/dist

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(BIN)/python $(SETUP)
	$(PIP) -e '.[plot]'
	@touch $@

$(VENV)/.test $(VENV)/.lint $(VENV)/.doc: $(VENV)/.%: $(BIN)/python $(SETUP)
	$(PIP) -e '.[$*]'
	@touch $@

clean:
	rm -rf $(VENV) build dist doc/_build doc/_inventories doc/auto_examples doc/generated *.egg-info
