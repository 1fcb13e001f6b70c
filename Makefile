PY ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
KERNELS = $(wildcard src/rookery/core/kernels/*.cpp src/rookery/core/kernels/*.h src/rookery/envs/native/*.h \
	src/rookery/envs/native/sources/*.c)

FACES = tests/rookery_rllib tests/rookery_mlagents

# those of test-wheel: commands on the path, or paths; one that is missing is skipped
PYTHONS ?= python3.11 python3.12 python3.13 python3.14

.PHONY: demo test test-faces test-all test-learning test-faults wheels test-wheel check lock docs site bench golden peers help

help:                         ## this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*##/\t/'

demo: $(VENV)/.stamp          ## trains two policies in the arena for a few seconds, writes an animation
	$(BIN)/python examples/arena.py

# bytecode is kept: most of the collection, and much of each of the many processes, would be compiling
test: $(VENV)/.stamp          ## the tests but the slow ones and those of the faces, in parallel
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 --dist worksteal --durations=20 -m "not slow" \
		$(FACES:%=--ignore=%)

test-faces: $(VENV)/.stamp    ## the tests of rookery_rllib and rookery_mlagents but the slow ones, in parallel
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 --dist worksteal --durations=20 -m "not slow" $(FACES)

test-all: .venv-all/.stamp site  ## every test, every build of the kernels, with every extra (installed in .venv-all)
	PYTHONDONTWRITEBYTECODE= ROOKERY_FAULTS=10 .venv-all/bin/python -m pytest -n 2 --dist worksteal --durations=20 \
		--hypothesis-profile thorough
	$(MAKE) test-wheel PYTHONS=$(PY)

test-learning: $(VENV)/.stamp ## every learning test, several seeds; writes benchmarks/results/
	$(BIN)/python benchmarks/learning.py

test-faults: $(VENV)/.stamp   ## kills, interrupts and starves runs at length; writes benchmarks/results/
	ROOKERY_FAULTS=30 $(BIN)/python -m pytest tests/faults

wheels: build/wheels/.stamp   ## wheels for Linux on x86-64 and aarch64, checked, in dist/
	rm -f dist/rookery_rl-*.whl
	build/wheels/bin/python scripts/make_wheels.py dist

test-wheel: wheels            ## installs the wheel of this machine in each of PYTHONS, without a compiler, and tries it
	$(PY) scripts/test_wheel.py dist/rookery_rl-*_$$(uname -m).whl $(PYTHONS)

check: $(VENV)/.stamp         ## ruff, mypy --strict, architecture tests
	$(BIN)/ruff check setup.py src tests benchmarks examples
	$(BIN)/ruff format --check setup.py src tests benchmarks examples
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_architecture.py

lock: $(VENV)/.stamp          ## rewrites constraints.txt from the environment
	{ echo "# exact versions, made by: make lock"; $(BIN)/python -m pip freeze --exclude-editable | sed 's/+cpu//'; } > constraints.txt.new
	mv constraints.txt.new constraints.txt

docs: $(VENV)/.stamp          ## rewrites the generated pages of docs/
	$(BIN)/python scripts/make_docs.py

site: .venv-site/.stamp       ## the documentation as a site, in build/site/site
	.venv-site/bin/python scripts/make_site.py

bench: $(VENV)/.stamp         ## speed, beside Stable-Baselines3 and RLlib (40 minutes); writes benchmarks/results/
	-$(MAKE) peers  # one that cannot be installed gets a row that says so
	$(BIN)/python benchmarks/run.py

golden: $(VENV)/.stamp        ## make golden OLD=COMMIT: about 200 short runs there and here; exit 1 if a bit differs
	$(BIN)/python benchmarks/golden.py $(OLD)

peers:                        ## environments of their own for the libraries that make bench compares with
	PY=$(PY) sh benchmarks/peers/install.sh

SOURCES = pyproject.toml setup.py constraints.txt requirements-dev.txt scripts/bootstrap $(KERNELS)

$(VENV)/.stamp: $(SOURCES)
	sh scripts/bootstrap $(PY) $(VENV)
	touch $@

.venv-all/.stamp: $(SOURCES)
	sh scripts/bootstrap $(PY) .venv-all all
	touch $@

build/wheels/.stamp: scripts/wheels-requirements.txt
	$(PY) -m venv build/wheels
	build/wheels/bin/python -m pip install -q --disable-pip-version-check -r scripts/wheels-requirements.txt
	touch $@

.venv-site/.stamp: scripts/website/requirements.txt constraints.txt
	rm -rf .venv-site && $(PY) -m venv --without-pip .venv-site
	$(PY) -m pip --python .venv-site/bin/python install -q --no-compile --disable-pip-version-check \
		-c constraints.txt -r scripts/website/requirements.txt
	touch $@
