# Every habit of the project by name; `make` lists them. Recipes are plain sh, CARGO_TARGET_DIR is honoured.

CARGO ?= cargo
COMPOSE ?= docker compose
COMPOSE_FILE := deploy/compose.yaml

.DEFAULT_GOAL := help
.PHONY: help setup build run test programs unit system faults-tests conformance-both campaign-short lint plain-words one-build fix check deep deny pure \
	conformance faults campaign recovery pressure sim fuzz fuzz-check bench bench-check bench-baseline bench-peers up down

help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install what is missing: redis-server, PostgreSQL, MariaDB, python3, a C compiler (through the system's packages)
	@sh scripts/setup.sh

# What `make run` needs, and first of all what every test needs. All targets name the same features, so nothing is
# built twice (scripts/one-build.sh).
PROGRAMS := -p tidemill -p tidemill-scheduler -p tidemill-worker

build: ## Build everything (debug)
	$(CARGO) build --workspace --locked

run: setup ## Start Redis, a scheduler, two workers and a mock model, and run an example through them
	@echo '==> building the programs: the first time about 400 crates, some minutes on two cores'
	$(CARGO) build --locked $(PROGRAMS)
	@sh scripts/demo.sh

# Whole processes mostly wait: for leases, for models, for each other. So more of their tests run at a time than there are
# cores, and the three longest programs side by side (each one's output comes when it ends, where make can do that).
AT_ONCE ?= 6
SYNC := $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)

test: setup programs unit system ## Run all tests: unit, store, whole processes, faults, and the conformance cases that pass
	@echo '==> faults, conformance and a short campaign, side by side: two minutes or so'
	@$(MAKE) --no-print-directory -j3 $(SYNC) faults-tests conformance-both campaign-short

programs:
	@echo '==> building programs and tests: the first time about 420 crates, some minutes on two cores'
	$(CARGO) build --workspace --bins --locked
	$(CARGO) test --workspace --no-run --lib --bin tidemill-bench --test '*' --locked

# The pure half, the stores in memory, single parts of a worker, simulated fleets.
unit:
	$(CARGO) test --workspace --locked --lib --bin tidemill-bench --test machine --test stories --test sandbox

system:
	$(CARGO) test --workspace --locked --test it -- --test-threads=$(AT_ONCE)
	$(CARGO) test -p tidemill-tests --locked --doc

faults-tests:
	$(CARGO) test --workspace --locked --test faults -- --test-threads=$(AT_ONCE)

# Also with every value stored apart: what the scheduler decides by itself otherwise, workers do then.
conformance-both:
	CONFORMANCE_VALUES=both CONFORMANCE_ONLY='$(CURDIR)/tests/conformance/passing.txt' $(CARGO) test --workspace --locked --test conformance

# Two short rounds, one of which cuts Redis's log; `make faults` runs a longer one.
campaign-short:
	@SEED=2 ROUNDS=2 ROUND_SECONDS=15 $(MAKE) --no-print-directory campaign

lint: plain-words one-build ## Check formatting, lints, documentation and its words
	$(CARGO) fmt --all --check || { echo 'lint: `make fix` formats the code'; exit 1; }
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@# Heads of modules are maps for readers of the code, and may name private ones.
	RUSTDOCFLAGS='-D warnings -A rustdoc::private_intra_doc_links' $(CARGO) doc --workspace --no-deps --lib --locked
	@sh scripts/compose-check.sh

plain-words:
	@sh scripts/plain-words.sh

one-build:
	@CARGO='$(CARGO)' sh scripts/one-build.sh $(PROGRAMS)

fix: ## Format the code and apply what clippy can mend
	$(CARGO) clippy --workspace --all-targets --fix --allow-dirty --allow-staged
	$(CARGO) fmt --all

check: lint test ## All that continuous integration checks of each change: lint, then test

# What need not run on each change. Continuous integration runs it every night; run it before a release.
deep: setup pure fuzz-check deny ## Check what takes long: other feature sets, licences, long campaigns and stories, fuzzing, counts of instructions
	$(MAKE) --no-print-directory sim
	$(MAKE) --no-print-directory pressure
	$(MAKE) --no-print-directory campaign
	$(MAKE) --no-print-directory recovery RECOVERY_KILLS=5
	$(CARGO) test --workspace --locked --test sandbox -- --ignored
	FUZZ_SECONDS=$${FUZZ_SECONDS:-20} $(MAKE) --no-print-directory fuzz
	$(MAKE) --no-print-directory bench-check

pure: ## Check that the pure half builds alone
	$(CARGO) check -p tidemill-base -p tidemill-workflow -p tidemill-engine -p tidemill-wire --locked

# They name files of the worker by their paths.
fuzz-check: ## Check that the fuzz targets build
	$(CARGO) check --manifest-path fuzz/Cargo.toml --locked

deny: ## Check licences, refused crates and sources; installs cargo-deny where it is missing
	@$(CARGO) deny --version >/dev/null 2>&1 || $(CARGO) install cargo-deny --locked
	$(CARGO) deny check licenses bans sources

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
	$(CARGO) build --workspace --locked --bin tidemill-sim
	"$${CARGO_TARGET_DIR:-target}/debug/tidemill-sim" $(if $(SEED),--seed $(SEED),--seeds $(SEEDS)) $(if $(WITHOUT),--without $(WITHOUT))

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
	@sh deploy/secrets.sh
	$(COMPOSE) -f $(COMPOSE_FILE) up --build --detach --wait

down: ## Stop those containers; the data of Redis stays in its volume
	$(COMPOSE) -f $(COMPOSE_FILE) down
