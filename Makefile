# Two commands do everything on a fresh machine: `make demo` and `make test`.
# They need Python 3.10-3.13 and make. PYTHON=python3.12 chooses another interpreter.

PYTHON ?= python3
VENV ?= .venv
# test processes; two held 8 and 11 GB of memory towards their end
WORKERS ?= 2
BIN := $(VENV)/bin

.PHONY: demo test slow lint clean

demo: $(VENV)/installed
	$(BIN)/bert-keras demo demo --overwrite

test: $(VENV)/installed-for-tests
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "not slow"

# every character, every line of shared/data, a million random strings (22 minutes on two cores), every division of a step of
# every head (18), fifty trainings killed and resumed (26)
slow: $(VENV)/installed-for-tests
	$(BIN)/python -m pytest -n $(WORKERS) -m slow

lint: $(VENV)/installed-for-tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(VENV)/bin/python setup.cfg pyproject.toml
	$(BIN)/pip install --quiet --editable .
	touch $@

# seqeval has a source release alone, which pip builds in a clean environment with --use-pep517 only.
# torch's plain name would bring gigabytes of GPU packages; the pinned release in the extra is the CPU build where there is one
$(VENV)/installed-for-tests: $(VENV)/bin/python setup.cfg pyproject.toml
	$(BIN)/pip install --quiet --use-pep517 --editable '.[test]'
	touch $@ $(VENV)/installed

clean:
	rm -rf $(VENV) build dist demo *.egg-info .pytest_cache .ruff_cache
