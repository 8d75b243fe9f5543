# The whole project in three commands. Each sets up what it needs in $(VENV) first.
#   make demo    the main job on a real photograph        make test    all tests
#   make check   linters, type checker, formatters        make clean   remove the environment and all outputs

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

SOURCES := pyproject.toml setup.py $(wildcard cpp_shim/src/*.[ch]) interop/executor/native_build.py
PYTEST_ARGS ?=
DEMO_ARGS ?=

.PHONY: demo test check format clean

demo: $(VENV)/.demo
	$(BIN)/python examples/photo/demo.py $(DEMO_ARGS)

test: $(VENV)/.test
	$(BIN)/python -m pytest -n auto $(PYTEST_ARGS)

check: $(VENV)/.check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $$(git ls-files 'cpp_shim/*.[ch]' 'cpp_shim/*.hpp' 'tests/*.[ch]' 'tests/*.cpp' 'examples/*.cpp' 'examples/*.cu')

format: $(VENV)/.check
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $$(git ls-files 'cpp_shim/*.[ch]' 'cpp_shim/*.hpp' 'tests/*.[ch]' 'tests/*.cpp' 'examples/*.cpp' 'examples/*.cu')

# One stamp for each set of extras; `tools/setup` says what is missing and how to get it.
$(VENV)/.demo: $(SOURCES)
	@PYTHON=$(PYTHON) VENV=$(VENV) tools/setup cuda,demo
	@touch $@

$(VENV)/.test: $(SOURCES)
	@PYTHON=$(PYTHON) VENV=$(VENV) tools/setup cuda,demo,test
	@touch $@

$(VENV)/.check: $(SOURCES)
	@PYTHON=$(PYTHON) VENV=$(VENV) tools/setup cuda,demo,test,check
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info examples/photo/out
	rm -f interop/executor/_native*.so interop/executor/_native.c
