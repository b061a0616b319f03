# Two commands do everything, set-up included: `make reports` and `make test`.
#   make reports                          all notebooks, from their recorded runs -> reports/desk/index.html
#   make reports SCALE=quick FRESH=1      from nothing, in about ten minutes -> reports/quick/index.html
#   make reports ARGS="paper=acfmo"       anything that `python -m fedlib` understands
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed
SCALE ?= recorded
FRESH ?=
ARGS ?=
CELL_TIMEOUT ?= 1800
NBVAL := --nbval --nbval-current-env --nbval-cell-timeout=$(CELL_TIMEOUT)
SHARED := --numprocesses=2 --dist=loadfile --no-loadscope-reorder

.PHONY: help reports verify course lint test lab bench notebooks clean

help:
	@echo "make reports    execute all notebooks and write their pages (SCALE=$(SCALE); FRESH=1 ignores recorded runs)"
	@echo "make verify     recompute the first rounds of every kind of recorded run, and compare"
	@echo "make course     the eight lessons for students (a zip without solutions) and for instructors -> reports/course"
	@echo "make lint       format, style, layers between packages, and types"
	@echo "make test       lint, unit and property tests, then every notebook compared with its saved outputs"
	@echo "make lab        JupyterLab, opened on the notebook to begin with"
	@echo "make bench      how fast the engine is on this machine"
	@echo "make notebooks  renew the outputs saved in the notebooks"
	@echo "make clean      remove .venv, caches, quick reports and built lessons (finished runs, larger scales and data stay)"

reports: $(READY)
	@$(BIN)/python -m fedlib scale=$(SCALE) $(if $(FRESH),record=ignore) $(ARGS)

verify: $(READY)
	@$(BIN)/python -m fedlib verify $(ARGS)

course: $(READY)
	@$(BIN)/python -m fedlib.course

# With the environment's tools first on the path, these are the commands of .pre-commit-config.yaml.
lint: export PATH := $(abspath $(BIN)):$(PATH)
lint: $(READY)
	@echo "ruff format"
	@ruff format --check
	@echo "ruff check"
	@ruff check
	@echo "lint-imports"
	@lint-imports
	@echo "basedpyright"
	@basedpyright

# The papers' notebooks are compared with their saved outputs, text for text, from recorded runs alone. That these come
# out of a real computation is tests/test_evidence.py's affair, which runs everything at quick scale from nothing; lessons
# are tests/test_lessons_executed.py's. Two processes share the work: notebook by notebook, then file by file.
test: $(READY) lint
	@fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; \
	export FEDLIB_RUNS="$$fresh/runs" FEDLIB_REPORT="$$fresh/report" FEDLIB_PROGRESS=0 TQDM_DISABLE=1; \
	FEDLIB_RECORD=only $(BIN)/python -m pytest $(NBVAL) notebooks $(SHARED); \
	$(BIN)/python -m pytest tests $(SHARED) --durations=20

# The file browser leaves out the folder of the lessons: their sources hold the solutions. A class opens its package, and
# whoever writes lessons opens them with `.venv/bin/jupyter lab notebooks/course`.
lab: $(READY)
	@$(BIN)/jupyter lab --ContentsManager.hide_globs='["__pycache__", "*.pyc", "*~", "course"]' notebooks/00_start_here.ipynb

bench: $(READY)
	@$(BIN)/python -m fedlib.bench

notebooks: $(READY)
	@$(BIN)/python -m fedlib.report.execute --save

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .import_linter_cache .hypothesis *.egg-info reports/quick reports/course reports/lab reports/sweeps reports/changed
	find fedlib tests notebooks -depth \( -name __pycache__ -o -name .ipynb_checkpoints \) -exec rm -rf {} +

# torch and torchvision are pinned and resolved in one pip command: apart, pip would fetch gigabytes of CUDA.
$(READY): pyproject.toml constraints.txt
	@python=; for name in python3.13 python3.12 python3.11 python3; do \
	  if [ -z "$$python" ] && $$name -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then \
	    python=$$name; fi; done; \
	if [ -z "$$python" ] && [ ! -x $(BIN)/python ]; then \
	  echo "Python 3.11, 3.12 or 3.13 is needed and none was found. Install one, or use environment.yml with conda." >&2; exit 1; fi; \
	if [ ! -x $(BIN)/python ]; then echo "Creating $(VENV) with $$python"; "$$python" -m venv $(VENV); fi
	@echo "Installing the pinned packages (a few minutes the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@
