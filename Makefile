# What a person types; longer shell lives in scripts/.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

BIN := .venv/bin
STAMP := .venv/.setup.stamp
WITH_JAVA := scripts/java.sh exec
MEMBERS := $(wildcard libs/*/pyproject.toml services/*/pyproject.toml cli/pyproject.toml)
TYPED := $(wildcard libs/*/src services/*/src cli/src scripts tests benchmarks)
# Folders of programs that import what lies beside them; each is checked by itself, as Python runs it.
PROGRAMS := $(sort $(dir $(wildcard examples/*/*.py)))

# Extra words for pytest and for the benchmark: make test ARGS='-k combiner'
ARGS ?=

.PHONY: help
help: ## Say what each target does
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

.PHONY: setup
setup: $(STAMP) ## Make .venv ready (Java and uv where missing, locked packages, members)

$(STAMP): pyproject.toml requirements.lock $(MEMBERS) scripts/setup.sh scripts/java.sh scripts/apt.sh scripts/uv.lock.txt
	@scripts/setup.sh
	@touch $@

.PHONY: demo
demo: setup ## Run an example job with lineage and trace its result
	@$(WITH_JAVA) $(BIN)/python examples/flights/demo.py $(ARGS)

.PHONY: test
test: setup ## Run the tests (installs Maven and Redis where missing: tests start real servers)
	@scripts/servers.sh ensure
	@$(WITH_JAVA) $(BIN)/pytest -q $(ARGS)

# Another seed: make soak SEED=7. ARGS may name fewer seconds: --soak 600
SEED ?= 1

.PHONY: soak
soak: setup ## Kill every part of a pipeline at random for an hour
	@$(WITH_JAVA) $(BIN)/pytest -q --timeout 0 -o log_cli=true tests/faults/test_pipeline_kills.py --soak 3600 --fault-seed $(SEED) $(ARGS)

.PHONY: bench
bench: setup ## Run the benchmarks; one JSON line each
	@$(WITH_JAVA) $(BIN)/python -m benchmarks $(ARGS)

.PHONY: page
page: ## Build the web page (needs Node.js 20.19 or newer with npm)
	cd services/query-api/web && npm ci --no-audit --no-fund --loglevel=error && npm run build

.PHONY: docs
docs: setup ## Build the documentation as a site: build/docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

.PHONY: check check-format check-lint check-types check-imports check-lock
check: check-format check-lint check-types check-imports check-lock docs ## Format, lint, types, imports, lock (make -k check: all findings)

check-format: setup
	@$(BIN)/ruff format --check .

check-lint: setup
	@$(BIN)/ruff check .

check-types: setup
	@$(BIN)/mypy $(TYPED)
	@# type-var: PySpark's stubs take no tuples as sort keys, and an example is a job as anyone writes it.
	@set -e; for folder in $(PROGRAMS); do \
		MYPYPATH=$$folder $(BIN)/mypy --disable-error-code type-var $$folder; done

check-imports: setup
	@$(BIN)/lint-imports --no-logo

check-lock: setup
	@$(BIN)/python scripts/lock.py check

.PHONY: format
format: setup ## Write the format and the safe lint fixes
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

.PHONY: lock
lock: setup ## Bring requirements.lock in line with the members, keeping every pin that fits
	@$(BIN)/python scripts/lock.py keep

.PHONY: lock-upgrade
lock-upgrade: setup ## Resolve requirements.lock anew, to the newest versions that fit
	@$(BIN)/python scripts/lock.py upgrade

.PHONY: clean
clean: ## Remove the environment, caches and what runs left behind
	rm -rf .venv .tools .lineage uv.lock .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	rm -rf spark-warehouse metastore_db derby.log benchmarks/out
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
