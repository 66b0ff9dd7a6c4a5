# Every target is one line in `make`; the text after ## is its description.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PEERS := .venv-peers
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Workers share the machine and take tests from each other, so that all end at the same time. Each has at most one Spark
# session, one PostgreSQL and one S3 server. On two cores four took 17:47 minutes where two took 20:08.
WORKERS ?= 4
PYTEST_ARGS ?=

# Tests start many processes; without bytecode each of them would compile Lakebed anew.
export PYTHONDONTWRITEBYTECODE :=

# Tests flush every commit; in memory, where there is plenty of it, that costs nothing.
IN_MEMORY = export TMPDIR="$$(tools/scratch.sh)";

# JAVA_HOME for whatever starts Spark, found by the same script that `make java` runs.
WITH_JAVA = export JAVA_HOME="$$(tools/ensure_java.sh --print-home)";

.PHONY: help venv peers java lint format test demo docs bench bench-upserts bench-peers soak pins clean

help: ## list the targets
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | while IFS=$$'\t' read -r name text; do printf '  make %-13s %s\n' "$$name" "$$text"; done

venv: $(STAMP) ## create .venv with the pinned packages (hashes checked)

# The stamp is written last: an interrupted install is simply done again.
$(STAMP): requirements/build.txt requirements/dev.txt pyproject.toml tools/make_venv.sh
	@PYTHON="$(PYTHON)" tools/make_venv.sh $(VENV)
	@$(PIP) --require-hashes -r requirements/build.txt
	@$(PIP) --require-hashes --no-build-isolation -r requirements/dev.txt
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

# pypaimon wants older versions of what Lakebed uses, so it lives apart and never reaches $(VENV).
peers: $(PEERS)/.installed ## create .venv-peers with what the benchmarks compare with (hashes checked)

$(PEERS)/.installed: requirements/build.txt requirements/peers.txt tools/make_venv.sh
	@PYTHON="$(PYTHON)" tools/make_venv.sh $(PEERS)
	@$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/build.txt
	@$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/peers.txt
	@touch $@

# Each peer of `make bench-peers` runs on the newest Spark that its JARs are made for, in an environment per Spark.
SPARKS := 4.2 4.1 3.5
SPARK_STAMPS := $(SPARKS:%=.venv-spark-%/.installed)

$(SPARK_STAMPS): .venv-spark-%/.installed: requirements/build.txt requirements/spark-%.txt tools/make_venv.sh
	@PYTHON="$(PYTHON)" tools/make_venv.sh .venv-spark-$*
	@.venv-spark-$*/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/build.txt
	@.venv-spark-$*/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-build-isolation \
		-r requirements/spark-$*.txt
	@touch $@

java: ## find Java 17 or newer, or install it (Debian, as root)
	@tools/ensure_java.sh

lint: venv ## ruff, mypy and import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: venv ## let ruff sort imports and format the code
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

test: venv java lint ## lint, then every test except the soak tests
	$(IN_MEMORY) $(WITH_JAVA) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not soak" $(PYTEST_ARGS)

soak: venv java ## the tests that run for minutes
	$(WITH_JAVA) $(BIN)/python -m pytest -m soak $(PYTEST_ARGS)

demo: venv java ## an online shop in about a minute; every number is checked
	@$(WITH_JAVA) $(BIN)/python examples/demo.py

docs: venv ## build the documentation into site/, without warnings
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

bench: venv peers java ## run the benchmarks and print ratios
	@$(WITH_JAVA) $(BIN)/python -m bench $(BENCH_ARGS)

bench-upserts: venv peers ## the benchmark of primary-key tables; BENCH_ARGS="--scale 0.01", "--publish"
	@$(BIN)/python -m bench.upserts $(BENCH_ARGS)

bench-peers: venv peers java $(SPARK_STAMPS) ## Delta, Iceberg, Hudi, Paimon and Lakebed on Spark; BENCH_ARGS="--help"
	@$(WITH_JAVA) $(BIN)/python -m bench.spark_peers $(BENCH_ARGS)

# Existing pins are kept; `make pins UPGRADE=--upgrade` moves them. dev comes first: it decides for the others.
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	--no-emit-index-url --no-emit-find-links $(UPGRADE)
pins: ## compile requirements/*.in to pins with hashes
	@test -x $(BIN)/uv || { $(MAKE) --no-print-directory venv; }
	$(COMPILE) requirements/dev.in -o requirements/dev.txt
	$(COMPILE) requirements/runtime.in -c requirements/dev.txt -o requirements/runtime.txt
	$(COMPILE) requirements/build.in -c requirements/dev.txt -o requirements/build.txt
	$(COMPILE) requirements/peers.in -o requirements/peers.txt
	for spark in $(SPARKS); do $(COMPILE) requirements/spark-$$spark.in -o requirements/spark-$$spark.txt; done

clean: ## remove .venv, caches and what Spark left behind
	rm -rf $(VENV) $(PEERS) $(SPARKS:%=.venv-spark-%) build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache \
		spark-warehouse metastore_db derby.log artifacts
	find src tests bench examples tools -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
