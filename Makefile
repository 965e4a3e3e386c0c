# The two commands of the README are `make demo` and `make test`; CI runs `make check`, `make test-core-threads` and `make test`.
# Each target makes the environment that it needs; only Python (3.11 or newer) and a C++ compiler must be installed.
PYTHON ?= python3
NEW_PYTHON ?= $(firstword $(wildcard $(HOME)/.pyenv/versions/3.13*/bin/python) $(shell command -v python3.13 python3.12))
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find src/core -type f) CMakeLists.txt
CXX_FILES := $(wildcard src/core/*/*.h src/core/*/*.cpp tests/core/*.h tests/core/*.cpp)
PYTEST_FLAGS ?= -n 2 --dist worksteal -q

.PHONY: demo test test-new test-browser test-spark test-study study check format docs clean bench bench-old calibration accuracy selection-promise change-promise rivals instructions

$(VENV)/.made:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "treeinner needs Python >= 3.11; say PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade "pip>=25.1"
	touch $@

# Editable: a change of Python source needs nothing, a change of C++ source rebuilds the core.
$(VENV)/.test: $(VENV)/.made pyproject.toml study/pyproject.toml $(SOURCES)
	$(BIN)/python -m pip install -q --group test
	$(BIN)/python -m pip install -q --no-deps --force-reinstall -e . -e study
	touch $@

$(VENV)/.check: $(VENV)/.test
	$(BIN)/python -m pip install -q --group check
	touch $@

$(VENV)/.docs: $(VENV)/.test
	$(BIN)/python -m pip install -q --group docs
	touch $@

$(VENV)/.cross: $(VENV)/.made
	$(BIN)/python -m pip install -q --group cross
	touch $@

demo: $(VENV)/.test
	$(BIN)/python examples/demo.py

test: $(VENV)/.test
	$(BIN)/python -m pytest $(PYTEST_FLAGS)

# The same suite with the newest libraries, which need a newer Python.
test-new:
	@test -n "$(NEW_PYTHON)" || { echo "make test-new needs Python 3.12 or 3.13; say NEW_PYTHON=/path/to/python3.13"; exit 1; }
	$(MAKE) test VENV=.venv-new PYTHON=$(NEW_PYTHON)

# Live models of the oldest, some middle and the newest versions of every library, an environment per cell of
# tests/matrix/cells.toml: writes docs/evidence/versions.md. MATRIX_FLAGS='oldest "newest*"' runs some cells; "--help" tells the others.
MATRIX_FLAGS ?=

.PHONY: matrix

matrix: $(VENV)/.made
	$(BIN)/python -m pip install -q --group matrix
	$(BIN)/python tests/matrix/run.py $(MATRIX_FLAGS)

# The page in a real browser. Needs Chromium (Debian: apt-get install chromium); skipped without it.
test-browser: $(VENV)/.test
	$(BIN)/python -m pytest tests/browser -q

# treeinner.spark on a real Spark, classic and Connect. Needs Java 17 (Debian: apt-get install openjdk-17-jre-headless);
# `make test` skips these tests where pyspark is not installed.
$(VENV)/.spark: $(VENV)/.test
	$(BIN)/python -m pip install -q --group spark
	touch $@

test-spark: $(VENV)/.spark
	$(BIN)/python -m pytest tests/test_spark.py -q

# The tests of study/ alone; they are part of `make test`.
test-study: $(VENV)/.test
	$(BIN)/python -m pytest $(PYTEST_FLAGS) study/tests

# The paper's simulation study (about an hour on two cores). STUDY_FLAGS="--quick" takes two minutes.
STUDY_OUT ?= build/study
STUDY_FLAGS ?=

study: $(VENV)/.test
	$(BIN)/treeinner-study --out $(STUDY_OUT) $(STUDY_FLAGS)

check: $(VENV)/.check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(CXX_FILES)
	$(BIN)/mypy
	$(BIN)/python tests/house.py

format: $(VENV)/.check
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CXX_FILES)

# The documentation: build/docs/index.html. Warnings are errors; nothing is fetched from the network.
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W -E --keep-going -q -b html -d build/doctrees docs build/docs
	@echo "Look at build/docs/index.html"

clean:
	rm -rf $(VENV) .venv-new .venv-bench .venv-bench-old build dist demo docs/gallery

.PHONY: coverage wheel sdist release-check

# Python lines of src/treeinner that the suite runs, per file, and in all; Spark's tests are part of it. Below 95 % it fails.
coverage: $(VENV)/.spark
	$(BIN)/python -m pip install -q --group coverage
	$(BIN)/python -m pytest $(PYTEST_FLAGS) --cov --cov-report=term-missing:skip-covered

$(VENV)/.package: $(VENV)/.made pyproject.toml
	$(BIN)/python -m pip install -q --group package
	touch $@

# The wheel of this system and Python, in dist/, then in an environment with nothing else: the first hour of a stranger (tests/stranger.py). On Linux it
# gets the oldest manylinux tag that its symbols allow; other systems have wheels of .github/workflows/wheels.yml only.
TRIED := build/wheel/tried
WHEEL_EXTRAS ?= [xgboost,sklearn,plots,cli]

wheel: $(VENV)/.package
	rm -rf build/wheel
	$(BIN)/python -m pip wheel -q --no-deps --wheel-dir build/wheel .
	mkdir -p dist
	@if [ "$$(uname -s)" = Linux ]; then PATH="$$(cd $(BIN) && pwd):$$PATH" $(BIN)/python -m auditwheel repair --wheel-dir build/wheel/repaired build/wheel/*.whl; \
	else mkdir build/wheel/repaired && cp build/wheel/*.whl build/wheel/repaired && echo "wheel: auditwheel skipped: it is for Linux"; fi
	cp build/wheel/repaired/*.whl dist
	$(BIN)/python -m twine check --strict build/wheel/repaired/*.whl
	$(PYTHON) -m venv $(TRIED)
	$(TRIED)/bin/python -m pip install -q "$$(echo build/wheel/repaired/*.whl)$(WHEEL_EXTRAS)" pandas
	cd build/wheel && tried/bin/python ../../tests/stranger.py
	@ls -l build/wheel/repaired/*.whl
	@echo "wheel: skipped: every other system and Python; see RELEASING.md"

# The source distribution, in dist/, then unpacked outside the repository: built there and tested by its own tests.
# SDIST_FLAGS="tests/read/test_golden.py" tries a part.
SDIST_FLAGS ?=

sdist: $(VENV)/.package
	rm -rf build/sdist
	$(BIN)/python -m build --sdist --outdir build/sdist .
	$(BIN)/python -m twine check --strict build/sdist/*.tar.gz
	mkdir -p dist && cp build/sdist/*.tar.gz dist
	set -e; there=$$(mktemp -d); trap 'rm -rf "$$there"' EXIT; tar -xzf build/sdist/*.tar.gz -C "$$there" --strip-components 1; \
	cd "$$there" && $(MAKE) test PYTHON="$(PYTHON)" VENV=.venv PYTEST_FLAGS="$(PYTEST_FLAGS) $(SDIST_FLAGS)"
	@ls -l build/sdist/*.tar.gz
	$(if $(SDIST_FLAGS),@echo "sdist: skipped: all tests but $(SDIST_FLAGS)")

# Before a tag: TAG=v1.2.3 is the version everywhere, the changelog has its date, addresses are filled in.
release-check:
	$(PYTHON) tests/release.py $(TAG)

# The C++ core without Python: every instruction set against the baseline, bit for bit (tests/core/check.cpp).
CORE_FLAGS := -std=c++17 -ffp-contract=off -Wall -Wextra -Isrc/core -Itests/core
ISA_baseline := -DTREEINNER_NS=baseline -DTREEINNER_REGISTER=16
ISA_neon := -DTREEINNER_NS=neon -DTREEINNER_REGISTER=16
ISA_avx2 := -DTREEINNER_NS=avx2 -DTREEINNER_REGISTER=32 -mavx2 -mbmi -mbmi2
ISA_avx512 := -DTREEINNER_NS=avx512 -DTREEINNER_REGISTER=64 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mbmi -mbmi2 -mprefer-vector-width=512
NATIVE := baseline $(if $(filter x86_64 amd64,$(shell uname -m)),avx2 avx512)$(if $(filter aarch64 arm64,$(shell uname -m)),neon)
SANITIZE := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all
SANITIZE_THREADS := -O1 -g -fsanitize=thread -pthread
NEON_CXX ?= aarch64-linux-gnu-g++
QEMU ?= qemu-aarch64
NEON_ROOT ?= /usr/aarch64-linux-gnu

# $(call core_program,program,compiler and flags,instruction sets): kernels and primitives once per set, linked with it.
define core_program
mkdir -p $(@D)
set -e; $(foreach set,$(3),$(foreach part,src/core/kernels/table tests/core/primitives,$(2) $(CORE_FLAGS) $(ISA_$(set)) -c $(part).cpp -o $(@D)/$(notdir $(part))_$(set).o;))
$(2) $(CORE_FLAGS) tests/core/$(1).cpp $(foreach set,$(3),$(@D)/table_$(set).o $(@D)/primitives_$(set).o) -o $@
endef

.PHONY: sanitize sanitize-ci test-core-sanitized test-core-threads test-valgrind test-neon test-python-sanitized need-neon need-valgrind

# The core under every checker there is: memory and undefined behaviour, threads, valgrind, NEON, and the Python tests of the kernels.
# Nine minutes of one core, builds included; `make -j2 -Otarget sanitize` on two. An instruction set that the processor lacks is skipped, with a line.
sanitize: test-core-sanitized test-core-threads test-valgrind test-neon test-python-sanitized

# What CI runs of it, on few cases: five minutes of one core, builds included, on two of them. Tools that are not here are skipped, with a line.
CI_SANITIZE = test-core-sanitized test-core-threads $(if $(shell command -v valgrind),test-valgrind) \
	$(if $(and $(shell command -v $(NEON_CXX)),$(shell command -v $(QEMU))),test-neon)

sanitize-ci:
	$(MAKE) -j2 -Otarget $(CI_SANITIZE) CASES=few
	$(if $(filter test-valgrind,$(CI_SANITIZE)),,@echo "sanitize-ci: valgrind skipped: it is not here")
	$(if $(filter test-neon,$(CI_SANITIZE)),,@echo "sanitize-ci: NEON skipped: no $(NEON_CXX) or no $(QEMU) here")
	@echo "sanitize-ci: skipped: all but few cases, and the Python tests of the kernels; make sanitize runs them"

# CASES=few: each kernel on few and small cases.
CASES ?=

# This machine's instruction sets under the address and undefined-behaviour sanitizers.
test-core-sanitized: build/sanitized/check
	build/sanitized/check $(CASES)

build/sanitized/check: $(CXX_FILES)
	$(call core_program,check,$(CXX) $(SANITIZE),$(NATIVE))

# Threads that share a model, under the thread sanitizer.
test-core-threads: build/threads/threads
	build/threads/threads

build/threads/threads: $(CXX_FILES)
	$(call core_program,threads,$(CXX) $(SANITIZE_THREADS),$(NATIVE))

# The same checks in valgrind, which also sees what is read before it was written; it knows no AVX-512. CASES=few takes four seconds.
test-valgrind: need-valgrind build/valgrind/check
	valgrind --quiet --error-exitcode=1 --leak-check=full --errors-for-leak-kinds=definite build/valgrind/check $(CASES)

need-valgrind:
	@command -v valgrind >/dev/null || { echo "make test-valgrind needs valgrind. On Debian or Ubuntu: apt-get install valgrind"; exit 1; }

build/valgrind/check: $(CXX_FILES)
	$(call core_program,check,$(CXX) -O1 -g,$(NATIVE))

# NEON on any Linux machine: cross-compiled, run in an emulator; with the sanitizers too, unless the cases are few.
test-neon: need-neon build/neon/check $(if $(CASES),,build/neon-sanitized/check)
	$(QEMU) -L $(NEON_ROOT) build/neon/check $(CASES)
	$(if $(CASES),,ASAN_OPTIONS=detect_leaks=0 $(QEMU) -L $(NEON_ROOT) build/neon-sanitized/check few)

need-neon:
	@for tool in $(NEON_CXX) $(QEMU); do command -v $$tool >/dev/null || { echo "make test-neon needs $$tool, which is not here. On Debian or Ubuntu: apt-get install g++-aarch64-linux-gnu qemu-user"; exit 1; }; done

build/neon/check: $(CXX_FILES) | need-neon
	$(call core_program,check,$(NEON_CXX) -O3,baseline neon)

build/neon-sanitized/check: $(CXX_FILES) | need-neon
	$(call core_program,check,$(NEON_CXX) $(SANITIZE),baseline neon)

# The Python tests of the kernels with an extension that was built with the sanitizers, in an environment of its own: it sees the
# libraries of $(VENV), but not the treeinner there. Python itself is not sanitized and leaks at its end, so leaks are not looked for.
SANITIZED_VENV := build/sanitized/venv
KERNEL_TESTS ?= tests/kernels
PRELOAD = $(shell $(CXX) -print-file-name=libasan.so):$(shell $(CXX) -print-file-name=libstdc++.so)

$(SANITIZED_VENV)/.made: $(VENV)/.test $(SOURCES) $(shell find src/treeinner -name '*.py')
	$(PYTHON) -m venv --clear --without-pip $(SANITIZED_VENV)
	$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" > $$($(SANITIZED_VENV)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/libraries.pth
	CXXFLAGS="$(SANITIZE)" LDFLAGS="$(SANITIZE)" $(BIN)/python -m pip --python $(SANITIZED_VENV)/bin/python install -q --no-deps --force-reinstall \
		-C build-dir=build/sanitized/extension -C cmake.build-type=Debug -C install.strip=false .
	touch $@

test-python-sanitized: $(SANITIZED_VENV)/.made
	cd tests && PYTHONPATH= ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD=$(PRELOAD) ../$(SANITIZED_VENV)/bin/python -m pytest -q -p no:cacheprovider --disable-warnings $(KERNEL_TESTS:tests/%=%)

# Mutants of every format that is read, each in a process with limits. FUZZ_FLAGS="--mutants 100000 --seed 7" tries more.
FUZZ_FLAGS ?=

.PHONY: fuzz

fuzz: $(VENV)/.test
	$(BIN)/python -m tests.fuzz $(FUZZ_FLAGS)

# The core for every system that wheels are made for, by one compiler that has them all (zig, of the group `cross`): kernels, their
# test, and the bindings as far as Python's headers for that system are here. What can run here runs: Linux as it is or in an
# emulator, Windows in wine; macOS is compiled and linked. Seven minutes of one core the first time, when zig builds its C++ libraries.
CROSS := x86_64-linux-musl aarch64-linux-musl x86_64-windows-gnu x86_64-macos aarch64-macos
ZIG = $(BIN)/python -m ziglang c++
WINE ?= wine
HEADERS := import nanobind, sysconfig; print('-isystem', nanobind.include_dir(), '-isystem', sysconfig.get_path('include'))
SETS_x86_64 := baseline avx2 avx512
SETS_aarch64 := baseline neon
RUN_x86_64-linux-musl := $(if $(filter x86_64,$(shell uname -m)),env,qemu-x86_64)
RUN_aarch64-linux-musl := $(if $(filter aarch64,$(shell uname -m)),env,$(QEMU))
RUN_x86_64-windows-gnu := WINEDEBUG=-all $(WINE)

.PHONY: cross $(CROSS:%=cross-%)

cross: $(CROSS:%=cross-%)

$(CROSS:%=cross-%): cross-%: build/cross/%/check.exe build/cross/%/bindings
	@runner='$(lastword $(RUN_$*))'; \
	if [ -z "$$runner" ]; then echo "cross: $*: compiled and linked; not run: it needs a Mac"; \
	elif ! command -v $$runner >/dev/null; then echo "cross: $*: compiled and linked; not run: no $$runner here"; \
	else echo "cross: $*:"; $(RUN_$*) $<; fi

$(CROSS:%=build/cross/%/check.exe): build/cross/%/check.exe: $(CXX_FILES) $(VENV)/.cross
	$(call core_program,check,$(ZIG) -target $* -O3,$(SETS_$(firstword $(subst -, ,$*))))

$(CROSS:%=build/cross/%/bindings): build/cross/%/bindings: $(CXX_FILES) $(VENV)/.cross
	mkdir -p $(@D)
	@case $* in *windows*) echo "cross: $*: src/core/python skipped: Python's headers for Windows are not here";; \
	*) $(ZIG) -target $* -O1 $(CORE_FLAGS) $$($(BIN)/python -c "$(HEADERS)") -c src/core/python/module.cpp -o $@;; esac

# Times us against the other libraries (about an hour; the machine should do nothing else) and writes docs/evidence/benchmark.md.
# BENCH_FLAGS="--scale 0.01 --passes 1" tries the harness in a few minutes and leaves docs alone.
BENCH_VENV ?= .venv-bench
BENCH_FLAGS ?=

# Not editable: what is timed is what a user installs.
$(BENCH_VENV)/.bench: pyproject.toml $(SOURCES) $(shell find src/treeinner -name '*.py')
	@test -n "$(NEW_PYTHON)" || { echo "make bench needs Python 3.12 or 3.13 for XGBoost 3.4; say NEW_PYTHON=/path/to/python3.13"; exit 1; }
	test -x $(BENCH_VENV)/bin/python || $(NEW_PYTHON) -m venv $(BENCH_VENV)
	$(BENCH_VENV)/bin/python -m pip install -q --upgrade "pip>=25.1"
	$(BENCH_VENV)/bin/python -m pip install -q --group bench
	# A peer that may not build, and that wants an old version of what shap wants a new one of.
	-$(BENCH_VENV)/bin/python -m pip install -q --no-deps fasttreeshap llvmlite numba psutil
	$(BENCH_VENV)/bin/python -m pip install -q --no-deps --force-reinstall .
	touch $@

bench: $(BENCH_VENV)/.bench
	$(BENCH_VENV)/bin/python benchmarks/run.py $(BENCH_FLAGS)
	$(BENCH_VENV)/bin/python benchmarks/reading.py
	test ! -d docs/evidence/benchmark || $(BENCH_VENV)/bin/python benchmarks/tables.py

# The same with XGBoost 3.2, the newest for Python 3.11; its part goes below the other one on the page.
bench-old:
	$(MAKE) bench BENCH_VENV=.venv-bench-old NEW_PYTHON=$(PYTHON)

# Coverage, false positives and power over many designs: writes docs/evidence/calibration.md (about 40 minutes of one core). An
# interrupted run continues; CALIBRATION_FLAGS="--part 0.03" is a trial, "--minutes 20" stops after so many.
CALIBRATION_FLAGS ?=

calibration: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/calibration.py $(CALIBRATION_FLAGS)

# Errors of the kernels against exact numbers: writes docs/evidence/accuracy.md (a few minutes of one core).
accuracy: $(VENV)/.test
	$(BIN)/python benchmarks/accuracy.py

# Signal against the scores that users would take instead, on the same draws and models: writes docs/evidence/rivals.md (about
# 25 minutes of one core). An interrupted run continues; RIVALS_FLAGS="--minutes 10" stops after so many.
RIVALS_FLAGS ?=

rivals: $(VENV)/.test
	$(BIN)/python -m pip install -q --group rivals
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/rivals.py $(RIVALS_FLAGS)

# False discoveries and power of TreeInnerSelector over many designs: writes docs/evidence/selection.md (half an hour of one
# core). An interrupted run continues; PROMISE_FLAGS="--minutes 60" stops after an hour.
PROMISE_FLAGS ?=

selection-promise: $(VENV)/.test
	$(BIN)/python benchmarks/selection/promise.py $(PROMISE_FLAGS)

# Which feature made the loss rise, over kinds of change and libraries: writes docs/evidence/change.md (about ten minutes of one
# core). An interrupted run continues; CHANGE_FLAGS="--minutes 5" stops after so many.
CHANGE_FLAGS ?=

change-promise: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/change.py $(CHANGE_FLAGS)

# Instructions that the core executes (needs valgrind); tests/kernels/test_instructions.py holds it to them.
instructions: $(VENV)/.test
	$(BIN)/python benchmarks/callgrind.py --update
