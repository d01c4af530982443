# Each target makes its environment, installs what it needs into it, and runs. A second run starts at once.
PYTHON ?= python3
BIN := .venv/bin
PIP := -m pip install --quiet --disable-pip-version-check
PYTEST := -m pytest -n 2 --dist worksteal
ELSEWHERE := $(addprefix --ignore=tests/,demo docs kernel/test_optimisation.py matrix newton package/test_wheel.py plot simulators studio/test_page.py)
WITH_MUJOCO := $(addprefix tests/,attach cli docs fit gym inspect robot_files sim stability studio actuator/test_control_every.py \
  actuator/test_state_files.py components/test_delay_time.py components/test_one_file.py package/test_assets.py)

MINUTES ?= 10

.PHONY: demo test test-matrix test-docs test-levels test-demo test-page test-wheel test-newton test-ray test-mjlab test-simulators test-mujoco4 test-latest fuzz lint docs bench figures accuracy \
        golden golden-check constraints format clean check-python

demo: .venv/.demo
	$(BIN)/actuon run src/actuon/assets/quadruped.xml

# Tests that compile more than they step do so without optimisation, in a third of the time; the others as users do.
test: .venv/.dev
	$(BIN)/python $(PYTEST) $(ELSEWHERE) -m 'not optimised'
	$(BIN)/python $(PYTEST) $(ELSEWHERE) -m optimised

# Every cell of the tables of which `test` runs some.
test-matrix: .venv/.dev
	$(BIN)/python $(PYTEST) tests/matrix

test-docs: .venv/.dev
	$(BIN)/python $(PYTEST) tests/docs

test-levels: .venv/.dev
	$(BIN)/python -m pytest tests/kernel/test_optimisation.py

test-newton: .venv/.dev
	$(BIN)/python -m pytest tests/newton

test-demo: .venv/.dev
	$(BIN)/python $(PYTEST) tests/demo tests/plot

test-page: .venv/.dev
	$(BIN)/python -m pytest tests/studio/test_page.py

test-wheel: .venv/.dev
	$(BIN)/python -m pytest tests/package/test_wheel.py

test-ray: .venv/.dev .venv/.ray
	$(BIN)/python -m pytest tests/fit/test_workers.py tests/fit/test_fleet.py

test-mjlab: .venv-mjlab/.installed
	.venv-mjlab/bin/python -m pytest -W ignore::DeprecationWarning \
	  tests/attach/mjlab tests/docs/test_pages.py tests/package/test_signatures.py -k mjlab

test-simulators: .venv-simulators/.installed
	.venv-simulators/bin/python -m pytest tests/simulators

test-mujoco4: .venv-mujoco4/.installed
	.venv-mujoco4/bin/python $(PYTEST) $(filter-out --ignore=tests/docs,$(ELSEWHERE)) -m 'not optimised' $(WITH_MUJOCO)
	.venv-mujoco4/bin/python $(PYTEST) $(filter-out --ignore=tests/docs,$(ELSEWHERE)) -m optimised $(WITH_MUJOCO)
	.venv-mujoco4/bin/python $(PYTEST) tests/demo tests/plot

# What the registry has today, whatever the upper bounds in pyproject.toml say; PyTorch stays, whose newest build is for CUDA.
test-latest: check-python
	rm -rf .venv-latest
	$(PYTHON) -m venv .venv-latest
	$(PYTHON) scripts/constraints.py newest dev > .venv-latest/requirements.txt
	.venv-latest/bin/python $(PIP) torch==2.13.0
	.venv-latest/bin/python $(PIP) -r .venv-latest/requirements.txt
	.venv-latest/bin/python $(PIP) --no-deps --editable .
	.venv-latest/bin/python $(PYTEST) $(ELSEWHERE) -m 'not optimised'
	.venv-latest/bin/python $(PYTEST) $(ELSEWHERE) -m optimised
	.venv-latest/bin/python $(PYTEST) tests/demo tests/docs tests/plot

fuzz: .venv/.dev
	$(BIN)/python -m fuzz --minutes $(MINUTES)

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: .venv/.docs
	$(BIN)/zensical build --clean --strict
	$(BIN)/python -m scripts.llms site/llms.txt

bench: .venv/.dev
	$(BIN)/python -m benchmarks

figures: .venv/.dev
	$(BIN)/python -m scripts.figures

accuracy: .venv/.dev
	$(BIN)/python -m studies.accuracy $(if $(ONLY),--only $(ONLY))

golden: .venv/.dev
	$(BIN)/python -m scripts.golden write

golden-check: .venv/.dev
	$(BIN)/python -m scripts.golden check

constraints: check-python
	$(PYTHON) scripts/constraints.py write constraints.txt --editable '.[dev,docs,ray]' torch==2.13.0
	$(PYTHON) scripts/constraints.py write constraints-mujoco4.txt --editable '.[test]' torch==2.13.0 mujoco~=4.0.0
	$(PYTHON) scripts/constraints.py write constraints-mjlab.txt torch==2.13.0 mjlab~=1.6.0 \
	  --editable '.[yaml]' pytest hypothesis
	$(PYTHON) scripts/constraints.py write constraints-simulators.txt pybullet drake sapien \
	  --editable '.[mujoco]' pytest hypothesis

format: .venv/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .venv-* .cache out site

check-python:
	@$(PYTHON) -c 'import sys; sys.exit("Actuon needs Python 3.11 or newer; set PYTHON=..." if sys.version_info < (3, 11) else 0)'

.venv/.pip: | check-python
	$(PYTHON) -m venv .venv
	touch $@

.venv/.%: .venv/.pip pyproject.toml constraints.txt
	$(BIN)/python $(PIP) -c constraints.txt --editable '.[$*]'
	touch $@

# Newton 1.8 pins MuJoCo 3.17.
.venv-mujoco4/.installed: pyproject.toml constraints-mujoco4.txt | check-python
	$(PYTHON) -m venv .venv-mujoco4
	.venv-mujoco4/bin/python $(PIP) -c constraints-mujoco4.txt --editable '.[test]'
	touch $@

# mjlab 1.6 pins MuJoCo 3.11. PyTorch comes first: what mjlab brings would replace it.
.venv-mjlab/.installed: pyproject.toml constraints-mjlab.txt | check-python
	$(PYTHON) -m venv .venv-mjlab
	.venv-mjlab/bin/python $(PIP) -c constraints-mjlab.txt torch
	.venv-mjlab/bin/python $(PIP) -c constraints-mjlab.txt torch mjlab --editable '.[yaml]' pytest hypothesis
	touch $@

.venv-simulators/.installed: pyproject.toml constraints-simulators.txt | check-python
	$(PYTHON) -m venv .venv-simulators
	.venv-simulators/bin/python $(PIP) -c constraints-simulators.txt pybullet drake sapien --editable '.[mujoco]' pytest hypothesis
	touch $@
