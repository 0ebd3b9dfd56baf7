# Every habit of the project by name; `make` lists them. Recipes are plain sh, CARGO_TARGET_DIR is honoured.

CARGO ?= cargo
COMPOSE ?= docker compose
COMPOSE_FILE := deploy/compose.yaml

.DEFAULT_GOAL := help
.PHONY: help setup build run test lint fix check conformance faults campaign recovery pressure sim fuzz bench bench-check bench-baseline bench-peers up down

help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install what is missing: redis-server, PostgreSQL, MariaDB, python3, a C compiler (through the system's packages)
	@sh scripts/setup.sh

build: ## Build everything (debug)
	$(CARGO) build --workspace --locked

run: setup ## Start Redis, a scheduler, two workers and a mock model, and run an example through them
	$(CARGO) build --locked -p tidemill -p tidemill-scheduler -p tidemill-worker
	@sh scripts/demo.sh

test: setup ## Run all tests: unit, store, whole processes, faults, and the conformance cases that pass
	$(CARGO) test --workspace --locked
	CONFORMANCE_ONLY='$(CURDIR)/tests/conformance/passing.txt' $(CARGO) test --workspace --locked --test conformance
	@# Once more with every value stored apart: what the scheduler did before, workers do now.
	CONFORMANCE_APART=1 CONFORMANCE_ONLY='$(CURDIR)/tests/conformance/passing.txt' $(CARGO) test --workspace --locked --test conformance
	@# A campaign of two short rounds, one of which cuts Redis's log; `make faults` runs a longer one.
	SEED=2 ROUNDS=2 ROUND_SECONDS=15 $(MAKE) --no-print-directory campaign

lint: ## Check formatting, lints, documentation, that the pure half builds alone, and that the fuzz targets build
	$(CARGO) fmt --all --check || { echo 'lint: `make fix` formats the code'; exit 1; }
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@# Heads of modules are maps for readers of the code, and may name private ones.
	RUSTDOCFLAGS='-D warnings -A rustdoc::private_intra_doc_links' $(CARGO) doc --workspace --no-deps --lib --locked
	$(CARGO) check -p tidemill-common --no-default-features --locked
	@# The fuzz targets name files of the worker by their paths, and nothing else would notice that one has moved.
	@if command -v c++ >/dev/null 2>&1; then $(CARGO) check --manifest-path fuzz/Cargo.toml --locked; \
	else echo 'lint: there is no C++ compiler (libfuzzer), the fuzz targets were not looked at'; fi
	@if command -v cargo-deny >/dev/null 2>&1; then $(CARGO) deny check; \
	else echo 'lint: cargo-deny is not installed, licences and advisories were not looked at'; fi

fix: ## Format the code and apply what clippy can mend
	$(CARGO) clippy --workspace --all-targets --fix --allow-dirty --allow-staged
	$(CARGO) fmt --all

check: lint test ## All that continuous integration checks: lint, then test

conformance: setup ## Run every conformance case, also those that do not pass yet (CONFORMANCE_DIR: other cases)
	$(CARGO) test --workspace --locked --test conformance

faults: setup ## Run the fault tests, then a fault campaign: MINUTES=n or KILLS=n, SEED=n, WORKFLOWS=dir (tests/README.md)
	$(CARGO) test --workspace --locked --test faults
	$(MAKE) --no-print-directory campaign

campaign: setup ## Run the fault campaign alone: real workflows under load while everything goes wrong, from a seed
	$(CARGO) test --quiet --workspace --locked --test campaign

recovery: setup ## Measure how long a fleet needs to get over the death of a worker or a scheduler (RECOVERY_KILLS=n)
	$(CARGO) test --quiet --workspace --locked --test recovery

pressure: setup ## Run the long tests under pressure and show what they measured: many paused runs, long runs, large values (PAUSED=n CHUNKS=n)
	$(CARGO) test --workspace --locked --test faults pressure -- --ignored --nocapture --test-threads=1

SEEDS ?= 10000
sim: ## Simulate a fleet to which everything happens: SEEDS=n stories, or SEED=n alone with its last lines (WITHOUT=guard)
	$(CARGO) run --locked -p tidemill-sim -- $(if $(SEED),--seed $(SEED),--seeds $(SEEDS)) $(if $(WITHOUT),--without $(WITHOUT))

fuzz: ## Feed every parser with what nobody would write, a minute each: FUZZ_SECONDS=n, ONLY="dsl_import …" (fuzz/README.md)
	@CARGO='$(CARGO)' sh scripts/fuzz.sh

bench: setup ## Measure on this machine, beside its own floor (release build; see bench/README.md)
	$(CARGO) run --locked --release -p tidemill-bench

bench-check: ## Count instructions of the engine's steps and of the wire under valgrind, and refuse more than bench/baseline.json allows
	@sh scripts/setup-valgrind.sh
	$(CARGO) run --locked --release -p tidemill-bench -- counts

bench-baseline: ## Make what is counted now the baseline
	@sh scripts/setup-valgrind.sh
	$(CARGO) run --locked --release -p tidemill-bench -- counts --write

bench-peers: setup ## Measure other engines beside Tidemill with the same work: REPEATS=n, ONLY=celery,graphon (docs/benchmarks.md)
	$(CARGO) build --locked --release -p tidemill-bench -p tidemill-scheduler -p tidemill-worker
	@python3 bench/peers/run.py

up: ## Start the containers of deploy/compose.yaml (settings: deploy/.env)
	@test -f deploy/.env || { echo 'up: copy deploy/env.example to deploy/.env and fill it in'; exit 1; }
	$(COMPOSE) -f $(COMPOSE_FILE) up --build --detach --wait

down: ## Stop those containers; the data of Redis stays in its volume
	$(COMPOSE) -f $(COMPOSE_FILE) down
