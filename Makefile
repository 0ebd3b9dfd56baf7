# The project's commands; `make` lists them. Recipes are plain sh. CARGO_TARGET_DIR is respected.

CARGO ?= cargo
COMPOSE ?= docker compose
COMPOSE_FILE := deploy/compose.yaml

.DEFAULT_GOAL := help
.PHONY: help setup build run test programs unit system faults-tests conformance-both conformance-python conformance-python-llm campaign-short lint plain-words one-build python-env python-tests plugins-test python-lint wheel wheel-test fix check deep deny pure \
	conformance conformance-cluster conformance-cluster-short campaign-cluster campaign-cluster-short faults failovers campaign clients clients-short openapi openapi-fuzz recovery pressure sim plan fuzz fuzz-check bench bench-plugins bench-python bench-check bench-baseline bench-peers up down

help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install system packages that are missing: redis-server, PostgreSQL, MariaDB, python3 with pip, a C compiler
	@sh scripts/setup.sh

# The programs that `make run` starts. Programs and tests use the same features of each crate, so that nothing is built
# twice (scripts/one-build.sh checks it).
PROGRAMS := -p tidemill -p tidemill-scheduler -p tidemill-worker

build: ## Build everything (debug)
	$(CARGO) build --workspace --locked

run: setup ## Start Redis, a scheduler, two workers and a mock model, and run an example workflow
	@echo '==> building the programs; the first build compiles about 400 crates and takes some minutes on two cores'
	$(CARGO) build --locked $(PROGRAMS)
	@sh scripts/demo.sh

# Tests of whole processes mostly wait: for leases, for models, for each other. So more of them run at once than there are
# cores, and two or three test programs run in parallel. If make supports it, the output of each is shown at its end.
AT_ONCE ?= 6
SYNC := $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)

test: setup programs unit system ## Run all tests: units, stores, whole processes, faults, and the conformance cases that must pass
	@echo '==> fault tests and conformance, in parallel; then a short campaign, two clients, the Python tests and plugins; then clusters'
	@$(MAKE) --no-print-directory -j2 $(SYNC) faults-tests conformance-both
	@$(MAKE) --no-print-directory -j3 $(SYNC) campaign-short clients-short python-tests plugins-test
	@$(MAKE) --no-print-directory -j3 $(SYNC) conformance-python-llm conformance-cluster-short campaign-cluster-short

programs:
	@echo '==> building programs and tests; the first build compiles about 420 crates and takes some minutes on two cores'
	$(CARGO) build --workspace --bins --lib --locked
	$(CARGO) test --workspace --no-run --lib --bin tidemill-bench --test '*' --locked

# Tests without whole processes: pure code, the memory store, single parts of a worker, simulated fleets.
unit:
	$(CARGO) test --workspace --locked --lib --bin tidemill-bench --test machine --test stories --test sandbox --test embedded

system:
	$(CARGO) test --workspace --locked --test it -- --test-threads=$(AT_ONCE)
	$(CARGO) test -p tidemill-tests -p tidemill-embed --locked --doc

faults-tests:
	$(CARGO) test --workspace --locked --test faults -- --test-threads=$(AT_ONCE)

# Runs each case three times: as usual, with every value stored as a blob (then workers evaluate the nodes that the scheduler
# evaluates otherwise), and in an embedded engine.
conformance-both:
	CONFORMANCE_VALUES=all CONFORMANCE_ONLY='$(CURDIR)/tests/conformance/passing.txt' $(CARGO) test --workspace --locked --test conformance

# All cases on three masters with replicas: `make deep` runs them. `make test` runs some of each kind there.
conformance-cluster: setup ## Run the conformance cases that must pass on a Redis Cluster
	CONFORMANCE_REDIS=cluster CONFORMANCE_ONLY='$(CURDIR)/tests/conformance/passing.txt' $(CARGO) test --workspace --locked --test conformance

conformance-cluster-short:
	@CONFORMANCE_REDIS=cluster CONFORMANCE_ONLY=tests/conformance/cluster.txt $(CARGO) test --quiet --workspace --locked --test conformance

# The cases with `llm` nodes in an embedded engine in Python, where a function in Python executes these nodes: half a minute.
# All cases through Python take some minutes, so `make deep` runs them.
PYTHON_CASES = CONFORMANCE_PYTHON=$$(sh scripts/python-env.sh) $(CARGO) test --quiet --workspace --locked --test conformance
conformance-python-llm: python-env
	@$(CARGO) build --quiet --workspace --bins --lib --locked
	@CONFORMANCE_ENGINE=python-llm CONFORMANCE_ONLY=python/tests/conformance/llm.txt $(PYTHON_CASES)

conformance-python: conformance-python-llm ## Run the conformance cases through the Python package, and those with models with a Python function as the model
	@CONFORMANCE_ENGINE=python CONFORMANCE_ONLY=tests/conformance/passing.txt $(PYTHON_CASES)

# Two clients that others wrote: one reads streams by lines, the other one by frames. `make clients` runs all.
clients-short:
	@CLIENTS='dify-client dify-sdk' $(CARGO) test --quiet --workspace --locked --test clients

# The environment of the Python package, made before the targets that need it, so that two of them do not make it at once.
python-env:
	@sh scripts/python-env.sh >/dev/null

# The module that the tests load is target/debug/lib_native.so: the library of the crate in python/, built with all others.
# Most tests wait for a fleet or for each other, so more of them run at once than there are cores.
PYTEST ?= --numprocesses=3
python-tests: python-env ## Run the tests of the Python package, its documentation and its examples (PYTEST="options of pytest")
	@$(CARGO) build --quiet --workspace --bins --lib --locked
	@python=$$(sh scripts/python-env.sh) && cd python && "$$python" -m pytest --quiet $(PYTEST)

# Makes an environment with the SDK of Dify's plugins, which takes about half a minute the first time.
plugins-test: ## Run the tests of plugins over Dify's SDK (PLUGINS_WHEELS=a folder of wheels, PLUGINS_PYTHON=an interpreter)
	@PLUGINS_CACHE=$${PLUGINS_CACHE:-$${TMPDIR:-/tmp}/tidemill-plugins-test} $(CARGO) test --quiet --workspace --locked --test real

# Two short rounds; in one of them the log of Redis is cut. `make faults` runs a longer campaign.
campaign-short:
	@SEED=2 ROUNDS=2 ROUND_SECONDS=15 $(MAKE) --no-print-directory campaign

# One short round on a Redis Cluster.
campaign-cluster-short:
	@CAMPAIGN_REDIS=cluster SEED=2 ROUNDS=1 ROUND_SECONDS=15 $(MAKE) --no-print-directory campaign

lint: plain-words one-build python-lint ## Check formatting, lints, documentation and wording
	$(CARGO) fmt --all --check || { echo 'lint: `make fix` formats the code'; exit 1; }
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@# `--all-targets` leaves out the programs that tests and drills start by themselves (`test = false`).
	$(CARGO) clippy --workspace --test '*' --locked -- -D warnings
	@# Documentation of modules is written for readers of the code, so it may link to private items.
	RUSTDOCFLAGS='-D warnings -A rustdoc::private_intra_doc_links' $(CARGO) doc --workspace --no-deps --lib --locked
	@sh scripts/compose-check.sh

plain-words:
	@sh scripts/plain-words.sh

one-build:
	@CARGO='$(CARGO)' sh scripts/one-build.sh $(PROGRAMS)
	@CARGO='$(CARGO)' sh scripts/one-build.sh -p tidemill-python

python-lint: ## Check form and types of the Python package, its tests and its examples
	@sh scripts/python-lint.sh

fix: ## Format the code, and apply the fixes that clippy can make itself
	$(CARGO) clippy --workspace --all-targets --fix --allow-dirty --allow-staged
	$(CARGO) fmt --all
	@sh scripts/python-lint.sh fix

check: lint test ## Run what continuous integration runs for each change: lint, then test

# Checks that are too slow for each change. Continuous integration runs them every night; run them before a release.
deep: setup pure fuzz-check deny ## Run the slow checks: the pure crates alone, licences, long simulations and campaigns, fuzzing, instruction counts
	$(MAKE) --no-print-directory sim
	$(MAKE) --no-print-directory pressure
	$(MAKE) --no-print-directory campaign
	$(MAKE) --no-print-directory campaign-cluster
	$(MAKE) --no-print-directory conformance-cluster
	$(MAKE) --no-print-directory recovery RECOVERY_KILLS=5
	$(MAKE) --no-print-directory failovers
	$(MAKE) --no-print-directory clients
	$(MAKE) --no-print-directory openapi-fuzz
	$(MAKE) --no-print-directory conformance-python
	$(MAKE) --no-print-directory wheel-test
	$(CARGO) test --workspace --locked --test sandbox -- --ignored
	FUZZ_SECONDS=$${FUZZ_SECONDS:-20} $(MAKE) --no-print-directory fuzz
	$(MAKE) --no-print-directory bench-check

pure: ## Check that the pure crates build without the others
	$(CARGO) check -p tidemill-base -p tidemill-workflow -p tidemill-engine -p tidemill-wire --locked

# Fuzz targets include files of the worker by path, so moving such a file breaks them.
fuzz-check: ## Check that the fuzz targets build
	$(CARGO) check --manifest-path fuzz/Cargo.toml --locked

deny: ## Check licences, forbidden crates and sources; installs cargo-deny if it is missing
	@$(CARGO) deny --version >/dev/null 2>&1 || $(CARGO) install cargo-deny --locked
	$(CARGO) deny check licenses bans sources

conformance: setup ## Run every conformance case, also those that do not pass yet (CONFORMANCE_DIR=dir runs other cases)
	$(CARGO) test --workspace --locked --test conformance

faults: setup ## Run the fault tests, then a fault campaign: MINUTES=n or KILLS=n, SEED=n, WORKFLOWS=dir (tests/README.md)
	$(CARGO) test --workspace --locked --test faults
	$(MAKE) --no-print-directory campaign

failovers: setup ## Fail over under load, 200 times (FAILOVERS=n) in each form (FAILOVERS_FORM=replicas|sentinel|cluster), and compare what clients were told with what is there
	FAILOVERS=$(or $(FAILOVERS),200) $(CARGO) test --workspace --locked --test faults failovers -- --nocapture --test-threads=1

campaign: setup ## Run only the fault campaign: real workflows under load, with faults that follow from a seed
	$(CARGO) test --quiet --workspace --locked --test campaign

campaign-cluster: setup ## Run the fault campaign on a Redis Cluster: slots move, masters die, servers join and leave
	CAMPAIGN_REDIS=cluster $(CARGO) test --quiet --workspace --locked --test campaign

clients: ## Run clients of Dify's service API from PyPI and npm, and a browser, against a fleet: CLIENTS="name …" (tests/README.md)
	@sh scripts/setup.sh clients
	$(CARGO) test --quiet --workspace --locked --test clients

openapi: ## Write docs/openapi again, after a change of a description in scheduler/src/api/openapi
	$(CARGO) test --quiet -p tidemill-scheduler --locked --lib write_the_files_in_docs_openapi -- --ignored

openapi-fuzz: setup ## Send what the OpenAPI documents allow, and what they do not, to a fleet: FUZZ_SECONDS=n (300), FUZZ_SEED=n, FUZZ_ONLY=regular expression of paths
	@sh scripts/openapi-env.sh >/dev/null
	$(CARGO) build --quiet --workspace --bins --lib --locked
	$(CARGO) test --quiet --workspace --locked --test openapi

wheel: setup ## Build a wheel of the Python package with the program `tidemill` inside (release build; target/wheels)
	@CARGO='$(CARGO)' sh scripts/wheel.sh

wheel-test: setup ## Build the wheel, and try it in an empty virtual environment (WHEEL=file: this one)
	@CARGO='$(CARGO)' sh scripts/wheel-test.sh $(WHEEL)

recovery: setup ## Measure how long a fleet needs to recover after a worker or scheduler dies (RECOVERY_KILLS=n)
	$(CARGO) test --quiet --workspace --locked --test recovery

pressure: setup ## Run the long load tests and show their figures: many paused runs, long runs, large values (PAUSED=n CHUNKS=n)
	$(CARGO) test --workspace --locked --test faults pressure -- --ignored --nocapture --test-threads=1

SEEDS ?= 10000
sim: ## Simulate fleets with faults: SEEDS=n stories, or one story with its last lines: SEED=n (WITHOUT=guard)
	$(CARGO) build --workspace --locked --bin tidemill-sim
	"$${CARGO_TARGET_DIR:-target}/debug/tidemill-sim" $(if $(SEED),--seed $(SEED),--seeds $(SEEDS)) $(if $(WITHOUT),--without $(WITHOUT))

plan: WORKERS ?= 1000
plan: SHARDS ?= 64
plan: SCHEDULERS ?= 10
plan: MASTERS ?= 3
plan: ## Print what an idle fleet costs, computed and simulated: WORKERS=n SHARDS=n SCHEDULERS=n MASTERS=n (of a cluster)
	$(CARGO) build --workspace --locked --bin tidemill-sim
	"$${CARGO_TARGET_DIR:-target}/debug/tidemill-sim" --plan $(WORKERS) $(SHARDS) $(SCHEDULERS) $(MASTERS)

fuzz: ## Test every parser with random input, one minute each: FUZZ_SECONDS=n, ONLY="dsl_import …" (fuzz/README.md)
	@CARGO='$(CARGO)' sh scripts/fuzz.sh

bench: setup ## Measure the speed on this machine and compare it with the floor (release build; see bench/README.md)
	$(CARGO) run --locked --release -p tidemill-bench
	@$(MAKE) --no-print-directory bench-python

bench-plugins: setup ## Measure a tool of a plugin beside a built-in one (PLUGINS_WHEELS=a folder of wheels, PLUGINS_PYTHON=an interpreter)
	@export TIDEMILL_PLUGINS_CACHE="$${PLUGINS_CACHE:-$${TMPDIR:-/tmp}/tidemill-plugins-test}"; \
	if [ -n "$$PLUGINS_WHEELS" ]; then export TIDEMILL_PLUGINS_WHEELS="$$PLUGINS_WHEELS"; fi; \
	if [ -n "$$PLUGINS_PYTHON" ]; then export TIDEMILL_PLUGINS_PYTHON="$$PLUGINS_PYTHON"; fi; \
	$(CARGO) run --locked --release -p tidemill-bench -- --only plugin --out target/bench-plugins.json

bench-python: setup ## Measure the engine in a Python process, beside graphon if there is a Python for it (release build)
	$(CARGO) build --locked --release -p tidemill-python
	@python=$$(sh scripts/python-env.sh) && "$$python" bench/peers/embedded.py $(BENCH_PYTHON)

bench-check: ## Count instructions of the engine and the wire with valgrind; fail if there are more than bench/baseline.json allows
	@sh scripts/setup-valgrind.sh
	$(CARGO) run --locked --release -p tidemill-bench -- counts

bench-baseline: ## Save the current instruction counts as the baseline
	@sh scripts/setup-valgrind.sh
	$(CARGO) run --locked --release -p tidemill-bench -- counts --write

bench-peers: setup ## Compare other engines with Tidemill on the same work: REPEATS=n, ONLY=celery,graphon (docs/benchmarks.md)
	$(CARGO) build --locked --release -p tidemill-bench -p tidemill-scheduler -p tidemill-worker
	@python3 bench/peers/run.py

up: ## Start the containers of deploy/compose.yaml (settings: deploy/.env)
	@test -f deploy/.env || { echo 'up: deploy/.env is missing: copy deploy/env.example to it, and fill in the values'; exit 1; }
	@sh deploy/secrets.sh
	$(COMPOSE) -f $(COMPOSE_FILE) up --build --detach --wait

down: ## Stop these containers; the data of Redis is kept in its volume
	$(COMPOSE) -f $(COMPOSE_FILE) down
