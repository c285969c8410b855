# `make bench` and `make test` set up what is missing; nothing but Python >= 3.11 and the package registries is needed.
PYTHON ?= python3
BIN := .venv/bin
FAULTS := $(basename $(notdir $(wildcard experiments/catalog/faults-*.yaml)))
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.PHONY: help setup bench test check tour faults soak perf pictures mutants lock clean powerloss

help: ## this list
	@grep -hE '^[a-z]+:.*##' $(firstword $(MAKEFILE_LIST)) | sed -E 's/:.*## /\t/' | expand -t 10

setup: ## Python packages, Kafka's jars, start-up caches; a second call does nothing
	@$(PYTHON) infra/bootstrap.py

bench: setup ## the quick sweep: which settings lose or duplicate when a broker dies
	@$(BIN)/ackbench run quick

test: setup check ## style, types, arrows, and all tests, on real brokers too; what looks at the whole machine runs alone
	@$(BIN)/pytest -n 2 --dist loadfile --ignore tests/e2e
	@$(BIN)/pytest tests/e2e

check: setup ## style, types and the arrows between the packages
	@$(BIN)/ruff check . && $(BIN)/ruff format --check --quiet . && $(BIN)/mypy && $(BIN)/lint-imports --no-logo

tour: setup ## what the lessons say, tested one after the other: one page of eighteen answers (more than an hour; the last one as root)
	@$(BIN)/ackbench tour

faults: setup ## every fault against acks and idempotence, then the table (hours; all of them as root)
	@for experiment in $(FAULTS); do $(BIN)/ackbench run $$experiment; done
	@$(BIN)/ackbench matrix $(FAULTS)

soak: setup ## 100 random schedules of faults in a row, and kill -9 in a fault of each family: is anything left? (root: else without disks and networks)
	@$(BIN)/python tests/soak

perf: setup ## the generator against Kafka's own, lateness, the final read, Spark, cluster start
	@$(BIN)/python tests/perf

pictures: setup ## the README's table and the pictures of docs/, from the newest quick sweep (chromium, chromium-driver)
	@$(BIN)/python tests/pictures

mutants: setup ## every small mistake in the code that judges, one by one: does a test notice?
	@ACKBENCH_MUTANTS=all $(BIN)/pytest tests/spark/test_mutations.py tests/unit/support/test_mutations_of_attribution.py

powerloss: setup ## what comes back after a power cut: of files, and of acknowledged records (root)
	@$(BIN)/pytest tests/unit/infra/disk/test_image.py tests/cluster/test_power_loss.py

clean: ## end what a killed run left behind; sealed trials are kept
	@$(BIN)/ackbench clean

lock: ## resolve the dependencies again, with hashes and no index address
	@$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet \
	  --upgrade --group dev pyproject.toml -o requirements/lock.txt
