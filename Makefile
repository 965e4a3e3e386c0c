# The two commands of the README are `make demo` and `make test`; CI runs `make check` and `make test`.
# Each target makes the environment it needs; nothing has to be installed before but python3 (>= 3.11) and a C++ compiler.
PYTHON ?= python3
NEW_PYTHON ?= $(firstword $(wildcard $(HOME)/.pyenv/versions/3.13*/bin/python) $(shell command -v python3.13 python3.12))
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find src/core -type f) CMakeLists.txt
PYTEST_FLAGS ?= -n 2 --dist worksteal -q

.PHONY: demo test test-new check format clean

$(VENV)/.made:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "treeinner needs Python >= 3.11; say PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade "pip>=25.1"
	touch $@

# Editable: a change of Python source needs nothing, a change of C++ source rebuilds the core.
$(VENV)/.test: $(VENV)/.made pyproject.toml $(SOURCES)
	$(BIN)/python -m pip install -q --group test
	$(BIN)/python -m pip install -q --no-deps --force-reinstall -e .
	touch $@

$(VENV)/.check: $(VENV)/.test
	$(BIN)/python -m pip install -q --group check
	touch $@

demo: $(VENV)/.test
	$(BIN)/python examples/demo.py

test: $(VENV)/.test
	$(BIN)/python -m pytest $(PYTEST_FLAGS)

# The same suite with the newest libraries, which need a newer Python.
test-new:
	@test -n "$(NEW_PYTHON)" || { echo "make test-new needs Python 3.12 or 3.13; say NEW_PYTHON=/path/to/python3.13"; exit 1; }
	$(MAKE) test VENV=.venv-new PYTHON=$(NEW_PYTHON)

check: $(VENV)/.check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror src/core/*.h src/core/*.cpp
	$(BIN)/mypy

format: $(VENV)/.check
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i src/core/*.h src/core/*.cpp

clean:
	rm -rf $(VENV) .venv-new build dist demo
