# Two commands do everything on a fresh machine: `make demo` and `make test`.
# They need Python 3.10-3.13 and make. PYTHON=python3.12 chooses another interpreter.

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
PYTHONS ?= 3.10 3.11 3.12 3.13
KERASES ?= 3.12 3.13 3.14 3.15
BIN := $(VENV)/bin
# one test process per core, so one thread for each of them
ONE_THREAD := OMP_NUM_THREADS=1 TF_NUM_INTRAOP_THREADS=1
PYTEST_OPTIONS := --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder --summary
PYTEST := $(ONE_THREAD) $(BIN)/python -m pytest $(PYTEST_OPTIONS)

.PHONY: demo test test-all clients client-packages matrix keras-matrix lint distributions sbom wheel-matrix constraints docs notebooks clean

demo: $(VENV)/installed
	$(BIN)/bert-keras demo demo --overwrite

# the quick suite: every rule once
test: $(VENV)/installed-for-tests
	$(PYTEST) -m "not slow"

# everything: also every character, all divisions of a step, fifty killed trainings, live comparisons with torch, the clients
test-all: $(VENV)/installed-for-tests $(VENV)/installed-for-docs $(if $(shell command -v npm),client-packages)
	$(PYTEST)

# the clients in examples/ for phones and browsers, compared with the package; needs Node 20, a JDK and Chromium
clients: $(VENV)/installed-for-tests client-packages
	$(PYTEST) tests/examples/clients

client-packages:
	cd examples/typescript && npm ci --no-audit --no-fund && npm run build
	cd examples/browser && npm ci --no-audit --no-fund && npm run build
	cd examples/mediapipe && npm ci --no-audit --no-fund
	cd tests/docs && npm ci --no-audit --no-fund

# the quick suite on every Python; PYTHONS="3.12 3.13" chooses
matrix:
	$(MAKE) --keep-going $(PYTHONS:%=python-%)

python-%:
	$(MAKE) test PYTHON=python$* VENV=.venv-python-$*

# what depends on Keras most, on every Keras release; KERASES="3.12" chooses
keras-matrix:
	$(MAKE) --keep-going $(KERASES:%=keras-%)

keras-%:
	$(PYTHON) -m venv .venv-keras-$*
	.venv-keras-$*/bin/pip install --quiet --use-pep517 --editable '.[test]' 'keras==$*.*'
	$(ONE_THREAD) .venv-keras-$*/bin/python -m pytest $(PYTEST_OPTIONS) -m "not slow" \
	    tests/architectures tests/distribution tests/training

lint: $(VENV)/installed-for-tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/vermin --quiet --no-tips --violations --target=3.10- --exclude str.decode bert_keras pipelines export tests

# the documentation site in site/, which needs no server: open site/index.html; needs Python 3.11
docs: $(VENV)/installed-for-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# the notebooks of examples/notebooks with their outputs, in docs/notebooks; NOTEBOOKS="search" chooses
notebooks: $(VENV)/installed-for-tests
	$(BIN)/python examples/notebooks/run.py $(NOTEBOOKS)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(VENV)/bin/python setup.cfg pyproject.toml
	$(BIN)/pip install --quiet --editable '.[onnx,plots,tflite]'
	touch $@

# seqeval has a source release alone, which pip builds in a clean environment with --use-pep517 only.
# torch's plain name would bring gigabytes of GPU packages; the pinned release in the extra is the CPU build where there is one
$(VENV)/installed-for-tests: $(VENV)/bin/python setup.cfg pyproject.toml
	$(BIN)/pip install --quiet --use-pep517 --editable '.[test]'
	touch $@ $(VENV)/installed

# the wheel and the source distribution, checked as PyPI would
distributions: $(VENV)/installed-for-tests
	rm -rf dist build
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*.whl dist/*.tar.gz

# a list of all packages and their licences (SBOM) that the wheel installs with all extras
sbom: distributions
	$(PYTHON) -m venv --clear .venv-sbom
	.venv-sbom/bin/pip install --quiet --find-links dist "bert-keras[all]==$$(ls dist/*.whl | cut -d- -f2)" # by name: a path would be listed
	$(BIN)/cyclonedx-py environment --output-file dist/bert_keras.cdx.json .venv-sbom/bin/python

# the demo of the wheel, outside of the repository, on every Python; run `make distributions` first
wheel-matrix:
	$(MAKE) --keep-going $(PYTHONS:%=wheel-python-%)

wheel-python-%:
	python$* -m venv --clear .venv-wheel-$*
	.venv-wheel-$*/bin/pip install --quiet dist/*.whl --constraint constraints/python$*.txt
	cd "$$(mktemp -d)" && $(CURDIR)/.venv-wheel-$*/bin/bert-keras demo --quick

# the versions that pip installs today, for each Python
constraints:
	for version in $(PYTHONS); do python$$version constraints/make_constraints.py || exit 1; done

$(VENV)/installed-for-docs: $(VENV)/bin/python setup.cfg pyproject.toml
	$(BIN)/pip install --quiet --editable '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) .venv-* build dist demo site *.egg-info .pytest_cache .ruff_cache \
	    examples/*/node_modules examples/*/dist tests/docs/node_modules
