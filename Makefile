# Each target makes .venv, installs what it needs into it, and runs. A second run starts at once.
PYTHON ?= python3
BIN := .venv/bin

MINUTES ?= 10

.PHONY: demo test test-page test-ray test-mjlab fuzz lint docs bench figures accuracy format clean

demo: .venv/.demo
	$(BIN)/actuon run src/actuon/assets/quadruped.xml

test: .venv/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal --ignore tests/studio/test_page.py

test-page: .venv/.dev
	$(BIN)/python -m pytest tests/studio/test_page.py

test-ray: .venv/.dev .venv/.ray
	$(BIN)/python -m pytest tests/fit/test_workers.py tests/fit/test_fleet.py

test-mjlab: .venv-mjlab/.installed
	.venv-mjlab/bin/python -m pytest -W ignore::DeprecationWarning \
	  tests/attach/mjlab tests/docs/test_pages.py tests/package/test_wheel.py -k mjlab

fuzz: .venv/.dev
	$(BIN)/python -m fuzz --minutes $(MINUTES)

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: .venv/.docs
	$(BIN)/zensical build --clean --strict

bench: .venv/.dev
	$(BIN)/python -m benchmarks

figures: .venv/.dev
	$(BIN)/python -m scripts.figures

accuracy: .venv/.dev
	$(BIN)/python -m studies.accuracy $(if $(ONLY),--only $(ONLY))

format: .venv/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .venv-mjlab .cache out site

.venv/.pip:
	$(PYTHON) -c 'import sys; sys.exit("Actuon needs Python 3.11 or newer; set PYTHON=..." if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	touch $@

.venv/.%: .venv/.pip pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	touch $@

# mjlab pins an older MuJoCo. PyTorch is pinned in both calls: what mjlab brings would replace it.
.venv-mjlab/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-mjlab
	.venv-mjlab/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	.venv-mjlab/bin/python -m pip install --quiet --disable-pip-version-check \
	  torch==2.13.0 'mjlab~=1.6.0' --editable '.[yaml]' pytest hypothesis
	touch $@
