# `make bench` and `make test` set up what is missing. They need Python 3.11 to 3.13 and the package
# registries, nothing else.
PYTHON ?= python3
BIN := .venv/bin
PYTEST := $(BIN)/pytest -n 4 --dist loadfile --no-loadscope-reorder
FAULTS := $(basename $(notdir $(wildcard experiments/catalog/faults-*.yaml)))
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
# Without cached bytecode each process compiles its modules again, and each of pytest's workers all
# tests: 18 s of CPU to collect them instead of 10 s.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help setup bench test test-all check types rules tour faults soak hostile external executors \
  provider yarn perf pictures mlflow extents tables sbom audit mutants powerloss ci-jobs gates \
  pod-template image image-test lock clean

help: ## print this list
	@grep -hE '^[a-z-]+:.*##' $(firstword $(MAKEFILE_LIST)) | sed -E 's/:.*## /\t/' | expand -t 10

setup: ## install Python packages, Kafka's jars and start-up caches
	@$(PYTHON) infra/bootstrap.py

bench: setup ## run the quick sweep: which settings lose or duplicate records
	@$(BIN)/ackbench run quick

test: setup check ## check style, types and imports, and run a test of each kind, also on real brokers
	@$(PYTEST) --first-tier --ignore tests/unit/test_house.py

test-all: setup check ## run all tests: also other clients, seeds, widths, and more mutants
	@$(PYTEST) --ignore tests/e2e
	@$(BIN)/pytest tests/e2e

check: setup ## check style, types and imports
	@$(MAKE) --no-print-directory --jobs 2 --output-sync types rules

types:
	@$(BIN)/mypy

rules:
	@$(BIN)/ruff check . && $(BIN)/ruff format --check --quiet .
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/pytest -q tests/unit/test_house.py

tour: setup ## test all lessons and make one page (an hour and a half; the last as root)
	@$(BIN)/ackbench tour

faults: setup ## run every fault against acks and idempotence (hours; some need root)
	@for experiment in $(FAULTS); do $(BIN)/ackbench run $$experiment; done
	@$(BIN)/ackbench matrix $(FAULTS)

soak: setup ## run random fault schedules and kill -9, and look for leftovers
	@$(BIN)/python tests/soak

hostile: setup ## try bad input, flipped bits, full disks, kill -9 and many nights (a day)
	@$(BIN)/python tests/hostile

external: setup ## crash and pause a leader by commands on an external cluster, and on a local one
	@$(BIN)/python tests/external

provider: setup ## run sweeps by the provider on Airflow alone, of two releases (registry)
	@$(BIN)/python tests/provider

executors: setup ## run sweeps on Celery with two hosts and on LocalExecutor (root; registry)
	@$(BIN)/python tests/executors

yarn: setup ## measure on a YARN cluster of this machine, in client and in cluster mode (registry)
	@$(BIN)/python tests/yarn

perf: setup ## measure generator, lateness, final read, live page, Spark, cluster start, sweeps
	@$(BIN)/python tests/perf

pictures: setup ## write README table and pictures (chromium); SWEEP=newest: of the newest quick one
	@$(BIN)/python tests/pictures $(SWEEP)

mlflow: setup ## write the pictures of MLflow's page (chromium)
	@$(BIN)/python tests/pictures/mlflow_pages.py

extents: setup ## store how many cells and minutes the catalogue's experiments have
	@$(BIN)/python -m ackbench.experiments.planning.extents

tables: setup ## write the tables of docs/what-*.md from the newest sweeps
	@$(BIN)/python tests/pictures/tables.py

sbom: setup ## write requirements/sbom.json and docs/licences.md from what is installed
	@$(BIN)/python tests/supply_chain

audit: setup ## look up known vulnerabilities of the locked packages (needs the advisories' server)
	@$(PYTHON) -m venv --clear .venv/audit && .venv/audit/bin/pip install --quiet pip-audit==2.10.1
	@.venv/audit/bin/pip-audit --requirement requirements/lock.txt --disable-pip --require-hashes

mutants: setup ## try every mutant of the code that judges
	@ACKBENCH_MUTANTS=all $(BIN)/pytest tests/unit/support/test_mutations.py \
	  tests/unit/support/test_mutations_of_attribution.py \
	  tests/unit/support/test_mutations_of_verdicts.py

powerloss: setup ## calibrate power loss: files and acknowledged records (root)
	@$(BIN)/pytest tests/unit/infra/disk/test_image.py tests/cluster/test_power_loss.py

ci-jobs: setup ## lint docs/ci/ and read our JUnit files with programs of others (registry)
	@$(BIN)/python tests/supply_chain/ci_jobs.py

pod-template: setup ## compare the pod template with the schema of Kubernetes' API (registry)
	@$(BIN)/python tests/supply_chain/pod_template.py

gates: setup ## run the action and the component of docs/ci/ as their runners would (registry)
	@$(BIN)/python tests/supply_chain/gates.py $(GATE)

image: setup ## build the OCI images (mmdebstrap and podman); SOURCE=address of the repository
	@$(BIN)/python -m ackbench.infra.image.build --source "$(SOURCE)"

image-test: setup ## run the images: check, a sweep of one cell, rights, size (podman)
	@$(BIN)/pytest tests/image

clean: ## remove what ended runs left behind; sealed trials are kept
	@$(BIN)/ackbench clean

lock: ## resolve the dependencies again, with hashes
	@$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header --quiet --upgrade \
	  --extra run --group dev pyproject.toml -o requirements/lock.txt
