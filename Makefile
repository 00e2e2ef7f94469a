# `make run` and `make test` need Python 3.11 or newer, git and make; everything else comes with `make setup`.
#
#   make run [REPO=/path/to/a/repository] [PORT=8000]     index a repository and serve
#   make test                                             checks and tests
#   make test-web                                         tests that need a browser or npm
#   make test-slow                                        tests that take long
#   make lint                                             the checks alone
#   make lock                                             pin what is installed in requirements.lock
#   make clean                                            remove what make made; var/ (your data) stays
#
# Everywhere: PYTHON=/path/to/python chooses the interpreter, VENV=.venv-other another environment.

SHELL := /bin/sh
VENV ?= .venv
PYTHON ?=
REPO ?=
PORT ?= 8000
# Processes that run tests side by side; each has its own test database in one embedded server.
WORKERS ?= 2
# More arguments for pytest, such as ARGS="-k chunking".
ARGS ?=
PYTEST = $(BIN)/python -m pytest $(if $(CI),,-q)

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
EXTRAS := embedded,local,mcp,evaluation,test
# Prints a step's output only when it fails.
QUIET = quietly() { echo "$$1"; shift; out=$$("$$@" 2>&1) || { printf '%s\n' "$$out"; exit 1; }; }; quietly

.PHONY: help setup run test test-web test-slow lint lock clean

help:
	@sed -n 's/^#   //p' Makefile

setup: $(VENV)/.setup
	@:

# As root with umask 022: the embedded server runs as a user of its own, who must be able to read its programs.
$(VENV)/.setup: pyproject.toml requirements.lock
	@set -e; \
	fit() { command -v "$$1" >/dev/null 2>&1 && "$$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }; \
	chosen=""; \
	for python in $(or $(PYTHON),python3 python3.13 python3.12 python3.11 python); do \
		if fit "$$python"; then chosen="$$python"; break; fi; \
	done; \
	if [ -z "$$chosen" ]; then \
		echo "This project needs Python 3.11 or newer, and $(or $(PYTHON),python3) is not. Install one, or name it: make setup PYTHON=/path/to/python3" >&2; \
		exit 1; \
	fi; \
	if [ "$$(id -u)" = 0 ]; then umask 022; fi; \
	if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
		echo "Making $(VENV) with $$("$$chosen" --version) (one to three minutes) ..."; \
		if ! out=$$("$$chosen" -m venv --clear "$(VENV)" 2>&1); then \
			printf '%s\n' "$$out" >&2; \
			echo "Python's venv module does not work here; on Debian and Ubuntu: apt-get install python3-venv" >&2; \
			exit 1; \
		fi; \
	else \
		echo "Updating $(VENV) ..."; \
	fi; \
	$(PIP) install -c requirements.lock -e '.[$(EXTRAS)]'; \
	touch $@

$(VENV)/.setup-web: $(VENV)/.setup
	@echo "Adding Playwright to $(VENV) ..."
	@$(PIP) install -c requirements.lock -e '.[$(EXTRAS),web]'
	@touch $@

run: setup
	@PYTHONUNBUFFERED=1 exec $(BIN)/python manage.py quickstart --port '$(PORT)' $(if $(REPO),--repository '$(REPO)')

lint: setup
	@$(QUIET) "ruff check" $(BIN)/ruff check .
	@$(QUIET) "ruff format" $(BIN)/ruff format --check .
	@$(QUIET) "mypy" $(BIN)/mypy
	@$(QUIET) "import-linter" $(BIN)/lint-imports --no-logo

test: lint
	@$(PYTEST) -m "not web and not slow" -n $(WORKERS) $(ARGS)

test-web: $(VENV)/.setup-web
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do \
		if command -v "$$name" >/dev/null 2>&1; then found=1; fi; \
	done; \
	if [ -z "$$found" ]; then \
		echo "make test-web needs Chromium or Chrome; on Debian: apt-get install chromium" >&2; exit 1; \
	fi
	@$(PYTEST) -m web $(ARGS) || { code=$$?; test $$code -eq 5 && echo "There are no web tests yet."; }

test-slow: setup
	@$(PYTEST) -m slow $(ARGS) || { code=$$?; test $$code -eq 5 && echo "There are no slow tests yet."; }

# Lines with a marker differ between Python versions and are kept as they are.
lock: $(VENV)/.setup-web
	@{ grep ';' requirements.lock; \
	$(PIP) freeze --exclude-editable | grep -v '@' | grep -vixF "$$(grep ';' requirements.lock | sed 's/ *;.*//')"; } \
	| LC_ALL=C sort -f > $(VENV)/lock && cp $(VENV)/lock requirements.lock && touch $(VENV)/.setup $(VENV)/.setup-web

clean:
	rm -rf .venv .venv-* *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
