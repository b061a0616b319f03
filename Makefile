# Two commands do everything, set-up included: `make reports` and `make test`.
#   make reports                          all notebooks at quick scale -> reports/quick/index.html
#   make reports SCALE=desk               another scale
#   make reports ARGS="paper=acfmo"       anything that `python -m fedlib` understands
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed
SCALE ?= quick
ARGS ?=
CELL_TIMEOUT ?= 1800

.PHONY: help reports course lint test lab bench notebooks clean

help:
	@echo "make reports    execute all notebooks (SCALE=$(SCALE)) and write reports/$(SCALE)/index.html"
	@echo "make course     the six lessons for students and for instructors -> reports/course/index.html"
	@echo "make lint       format, style, layers between packages, and types"
	@echo "make test       lint, unit and property tests, then every notebook compared with its saved outputs"
	@echo "make lab        JupyterLab, opened on the notebook to begin with"
	@echo "make bench      how fast the engine is on this machine"
	@echo "make notebooks  renew the outputs saved in the notebooks"
	@echo "make clean      remove .venv, caches, quick reports and built lessons (finished runs, larger scales and data stay)"

reports: $(READY)
	@$(BIN)/python -m fedlib scale=$(SCALE) $(ARGS)

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

# An empty run store and no progress bars: the saved outputs must come out of a real computation, text for text.
test: $(READY) lint
	@fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; \
	export FEDLIB_RUNS="$$fresh/runs" FEDLIB_REPORT="$$fresh/report" FEDLIB_PROGRESS=0 TQDM_DISABLE=1; \
	$(BIN)/python -m pytest notebooks tests --nbval --nbval-current-env --nbval-cell-timeout=$(CELL_TIMEOUT)

lab: $(READY)
	@$(BIN)/jupyter lab notebooks/00_start_here.ipynb

bench: $(READY)
	@$(BIN)/python -m fedlib.bench

notebooks: $(READY)
	@$(BIN)/python -m fedlib.report.execute --save

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .import_linter_cache .hypothesis *.egg-info reports/quick reports/course reports/lab reports/sweeps
	find fedlib tests notebooks -depth \( -name __pycache__ -o -name .ipynb_checkpoints \) -exec rm -rf {} +

# torch and torchvision are pinned and resolved in one pip command: apart, pip would fetch gigabytes of CUDA.
$(READY): pyproject.toml constraints.txt
	@python=$$(command -v python3.11 || command -v python3 || true); \
	if ! "$$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then \
	  echo "Python 3.11 is needed and neither python3.11 nor python3 is one. Install it, or use environment.yml with conda." >&2; exit 1; fi; \
	if [ ! -x $(BIN)/python ]; then echo "Creating $(VENV) with $$python"; "$$python" -m venv $(VENV); fi
	@echo "Installing the pinned packages (a few minutes the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@
