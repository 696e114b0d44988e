# The commands of a checkout. Everything is installed into $(VENV), editable, and only when it is out of date.

PYTHON ?= python3
VENV ?= .venv
JOBS ?= auto
EXAMPLES ?= 5000
# Seconds after which a test hangs: it fails, with the tracebacks of all threads, and the others go on.
HANGS ?= 300

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
STAMP := $(VENV)/.stamp

# What an editable install has to be repeated for. Python files of the package are live.
BUILD_INPUTS := pyproject.toml CMakeLists.txt $(wildcard native/* ggml/* cuda/*)
CXX_FILES := $(wildcard native/*.[ch]pp ggml/*.[ch]pp cuda/*.[ch]pp cuda/*.cu cuda/*.cuh)
SHELL_FILES := $(wildcard *.sh cli/*.sh ggml/*.sh) .ci/run
PYTHON_DIRECTORIES := api core cli tests benchmarks $(wildcard *.py)
TYPED := build/typed
RANDOM_MODELS := models/random
SENTENCE := Hello! This is the demo voice, and nothing had to be downloaded to hear it.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(STAMP)-run ## Install into .venv and speak one sentence into demo.wav
	echo "$(SENTENCE)" | $(BIN)/qwen-tts -o demo.wav
	@echo
	@echo "demo.wav is ready. What to try next:"
	@echo "  echo 'Your own words.' | $(BIN)/qwen-tts -o mine.wav"
	@echo "  $(BIN)/qwen-tts --list-speakers"
	@echo "  $(BIN)/qwen-tts --help"

.PHONY: test
test: $(STAMP)-test ## Run the tests in parallel (JOBS=2 for two processes)
	$(BIN)/python -m pytest -n $(JOBS) -o faulthandler_timeout=$(HANGS) -o faulthandler_exit_on_timeout=true

.PHONY: fuzz
fuzz: $(STAMP)-test ## Read many damaged files (EXAMPLES=5000 of each kind)
	GGTTS_FUZZ_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -n $(JOBS) tests/fuzz

.PHONY: lint
lint: $(STAMP)-lint ## Check format, style and types
	$(BIN)/ruff format --check $(PYTHON_DIRECTORIES)
	$(BIN)/ruff check $(PYTHON_DIRECTORIES)
	$(BIN)/clang-format --dry-run --Werror $(CXX_FILES)
	$(BIN)/shellcheck $(SHELL_FILES)
	@$(type_tree)
	MYPYPATH=$(TYPED) $(BIN)/mypy --config-file pyproject.toml -p ggtts

.PHONY: format
format: $(STAMP)-lint ## Format every source file
	$(BIN)/ruff check --fix-only --quiet $(PYTHON_DIRECTORIES)
	$(BIN)/ruff format $(PYTHON_DIRECTORIES)
	$(BIN)/clang-format -i $(CXX_FILES)

.PHONY: bench
bench: $(STAMP)-run ## Time full-size random models, stage by stage (benchmarks/README.md)
	for type in q8_0 q4_k_m; do $(BIN)/python benchmarks/make_model.py --size 0.6b --type $$type --codec-type f32 \
	  --out $(RANDOM_MODELS) || exit 1; done
	$(BIN)/python benchmarks/run.py --models $(RANDOM_MODELS)

.PHONY: clean
clean: ## Remove .venv and everything that was built
	rm -rf $(VENV) build

# The installed layout (ggtts, ggtts.core, ggtts.cli) as links, which a type checker can follow.
define type_tree
rm -rf $(TYPED) && mkdir -p $(TYPED)/ggtts && \
ln -s $(CURDIR)/api/ggtts/* $(CURDIR)/core $(CURDIR)/cli $(TYPED)/ggtts/
endef

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "$(PYTHON) is missing or older than Python 3.10: name another with make PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "$(PYTHON) cannot make $(VENV): install its venv module (Debian: apt install python3-venv)" >&2; \
	    rm -rf $(VENV); exit 1; }

# Each extra contains the ones before it, so one install brings the smaller stamps up to date too.
$(STAMP)-run: $(BUILD_INPUTS) | $(BIN)/python
	$(PIP) -e .
	@touch $@

$(STAMP)-test: $(BUILD_INPUTS) | $(BIN)/python
	$(PIP) -e '.[test]'
	@touch $@ $(STAMP)-run

$(STAMP)-lint: $(BUILD_INPUTS) | $(BIN)/python
	$(PIP) -e '.[lint]'
	@touch $@ $(STAMP)-test $(STAMP)-run
