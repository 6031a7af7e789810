# What a person types; longer shell lives in scripts/.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

BIN := .venv/bin
STAMP := .venv/.setup.stamp
SPARK_CLASSES := .venv/spark-classes.jsa
WITH_JAVA := scripts/java.sh exec
# Versions of Spark beside the one of requirements.lock: each has a lock and an environment of its own.
SPARKS := 3.5 4.0 4.2 4.3
WITH_NODE := $(abspath scripts/node.sh) exec
MEMBERS := $(wildcard libs/*/pyproject.toml services/*/pyproject.toml cli/pyproject.toml)
TYPED := $(wildcard libs/*/src services/*/src services/*/hatch_build.py cli/src infra/grafana scripts tests benchmarks)
# What `import lineage` offers of its own: docstrings have sections for arguments, results and errors.
PUBLIC := $(addprefix cli/src/lineage/,__init__.py questions.py) \
	$(addprefix services/emitter/src/lineage_emitter/,attaching.py capturing_builder.py)
# Folders of programs that import what lies beside them; each is checked by itself, as Python runs it.
PROGRAMS := $(sort $(dir $(wildcard examples/*/*.py examples/*/*/*.py charts/*/files/*.py)))

WEB := services/query-api/web
WEB_MODULES := $(WEB)/node_modules/.package-lock.json
PAGE := services/query-api/src/lineage_query_api/web/static/index.html
# What the page is built from; folders, too: their times tell of files that are gone.
PAGE_SOURCES := $(shell find $(WEB)/src $(WEB)/public) \
	$(addprefix $(WEB)/,index.html package.json tsconfig.json vite.config.ts scripts/sizes.mjs)

# Tests wait for servers and JVMs much of the time. Whole files go to a process, in their order: what a file
# shares is made once, and the long ones come first. One at a time: make test ARGS='-n 0'
# A process that dies is not started again: what was left of its file would be waited for without end.
TWO_AT_ONCE := -n 2 --dist loadfile --no-loadscope-reorder --max-worker-restart=0

# What depends on Spark: all of it, and what is enough to see that nothing broke.
SPARK_TESTS := tests/sparks tests/unit tests/property tests/e2e tests/faults/test_recomputation.py tests/faults/test_speculation.py \
	tests/faults/test_capture_failures.py $(wildcard tests/integration/test_frames*.py) tests/integration/test_relations.py \
	--ignore tests/e2e/test_page.py --ignore tests/integration/test_frames_kafka.py
SPARK_FEW := tests/integration/test_newer_spark.py tests/integration/test_frames_functions.py tests/e2e/test_taking.py

# Images of Python often set it. Without kept bytecode each process of a test compiles all that it imports: a job of Spark
# with lineage takes a third more processor time.
unexport PYTHONDONTWRITEBYTECODE

# Extra words for pytest and for the benchmark: make test ARGS='-k combiner'
ARGS ?=

.PHONY: help
help: ## List targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

.PHONY: setup
setup: $(STAMP) ## Set up .venv: uv and Java where missing, the locked packages, the project's own

$(STAMP): pyproject.toml requirements.lock $(MEMBERS) scripts/setup.sh scripts/java.sh scripts/apt.sh scripts/uv.lock.txt
	@scripts/setup.sh
	@touch $@

.venv-spark%/.setup.stamp: requirements-spark%.lock $(STAMP)
	@$(BIN)/python scripts/lock.py spark $* > $(STAMP).spark$*
	@scripts/setup.sh .venv-spark$* $(STAMP).spark$*
	@touch $@

.PHONY: demo
demo: setup ## Run an example job with lineage and trace its result
	@$(WITH_JAVA) $(BIN)/python examples/flights/demo.py $(ARGS)

.PHONY: test
test: setup page $(SPARK_CLASSES) ## Run the tests against real servers (installs Maven, Redis, Prometheus and Chromium where missing)
	@scripts/servers.sh ensure
	@$(WITH_JAVA) $(BIN)/pytest -q $(TWO_AT_ONCE) -m 'not long' $(ARGS)

.PHONY: test-unit
test-unit: setup ## Run the unit tests: Python alone, no server, page or Java
	@$(BIN)/pytest -q $(TWO_AT_ONCE) -m 'unit and not integration and not long' tests/unit $(ARGS)

.PHONY: test-long
test-long: setup page $(SPARK_CLASSES) ## Run the slow tests that `make test` leaves out
	@scripts/servers.sh ensure
	@$(WITH_JAVA) $(BIN)/pytest -q $(TWO_AT_ONCE) -m long $(ARGS)

# Drivers of tests start a third quicker with it.
$(SPARK_CLASSES): $(STAMP) tests/support/jvm.py
	@$(WITH_JAVA) $(BIN)/python -m tests.support.jvm $@

# Runs pytest in the Spark of an environment: $(call in_spark,4.3)
in_spark = PATH="$(abspath .venv-spark$(1))/bin:$$PATH" $(WITH_JAVA) .venv-spark$(1)/bin/pytest -q $(TWO_AT_ONCE)

# One of SPARKS: make test-spark VERSION=4.3
VERSION ?=

.PHONY: test-spark
test-spark: $(if $(filter $(VERSION),$(SPARKS)),.venv-spark$(VERSION)/.setup.stamp) ## Run the tests of capture and of DataFrames in another Spark (VERSION=4.3)
	@$(if $(filter $(VERSION),$(SPARKS)),,echo 'make test-spark VERSION=$(subst $() , or ,$(SPARKS))' >&2; exit 2)
	@scripts/servers.sh ensure
	@$(call in_spark,$(VERSION)) $(SPARK_TESTS) $(ARGS)

# All versions run, even after one that failed; the few tests share one Spark.
.PHONY: check-spark
check-spark: $(SPARKS:%=.venv-spark%/.setup.stamp) ## Run a few of these tests in each other Spark
	@status=0; $(foreach version,$(SPARKS),echo 'Spark $(version)'; $(call in_spark,$(version)) -n 0 $(SPARK_FEW) $(ARGS) || status=1;) exit $$status

# Another seed: make soak SEED=7. ARGS may name fewer seconds: --soak 600
SEED ?= 1

.PHONY: soak
soak: setup ## Kill parts of a running pipeline at random for an hour
	@$(WITH_JAVA) $(BIN)/pytest -q --timeout 0 -o log_cli=true tests/faults/test_pipeline_kills.py --soak 3600 --fault-seed $(SEED) $(ARGS)

# Other programs, and for longer: make hunt SEED=7 SECONDS=7200
SECONDS ?= 300

.PHONY: hunt
hunt: setup ## Search for wrong lineage: random programs under faults (five minutes)
	@scripts/servers.sh ensure
	@$(WITH_JAVA) $(BIN)/python -m tests.hunt --seed $(SEED) --seconds $(SECONDS) $(ARGS)

# Some of them, or longer: make hunt-faults ARGS='attempts kept --seconds 600'
.PHONY: hunt-faults
hunt-faults: setup ## Measure how long the hunt takes to find each fixed bug when it is put back
	@scripts/servers.sh ensure
	@$(WITH_JAVA) $(BIN)/python -m tests.hunt.put_back --seed $(SEED) $(ARGS)

# Others, longer, or a part: make fuzz SEED=7 SECONDS=7200 ARGS='--only recipe plan'
.PHONY: fuzz
fuzz: setup ## Fuzz decoders, recipes, plans and requests (five minutes)
	@$(BIN)/python -m tests.fuzz --seed $(SEED) --seconds $(SECONDS) $(ARGS)

# Other chains, or more: make erasure-oracle SEED=7 ARGS='--programs 100000'
.PHONY: erasure-oracle
erasure-oracle: setup ## Hold plans of erasure over 10,000 drawn chains of jobs against a scan of all outputs
	@$(BIN)/python -m tests.oracle.erasure --seed $(SEED) $(ARGS)

# A part, or fewer programs: make same ARGS='methods --only DataFrame. --draw 50 --seed 3'
.PHONY: same
same: setup ## Compare results of all public PySpark methods with and without capture
	@$(WITH_JAVA) $(BIN)/python -m tests.same $(ARGS)

.PHONY: bench
bench: setup ## Run the benchmarks; each prints one JSON line
	@$(WITH_JAVA) $(BIN)/python -m benchmarks $(ARGS)

.PHONY: bench-guard
bench-guard: setup ## Fail when capturing a word count costs too much (two minutes)
	@$(WITH_JAVA) $(BIN)/python -m benchmarks.guard $(ARGS)

.PHONY: report
report: setup ## Write docs/benchmarks.md and its pictures from benchmarks/results
	@$(BIN)/python -m benchmarks.report $(ARGS)

.PHONY: images images-load sbom sign test-kube
images: ## Build the container images with docker, or ENGINE=podman (see scripts/images.sh)
	@scripts/images.sh build

images-load: ## Load the images into the cluster of kubectl's context (kind, k3d, minikube)
	@scripts/images.sh load

sbom: setup ## Write the images' bills of materials (CycloneDX) to build/sbom
	@scripts/sbom.sh build/sbom

sign: setup ## Sign the pushed images and the chart, if COSIGN_KEY is set (see scripts/sign.sh)
	@scripts/sign.sh

test-kube: setup ## Test chart and images on the cluster of kubectl's context
	@scripts/test-kube.sh $(ARGS)

# Where it must be scanned: make audit ARGS=--required
.PHONY: audit
audit: setup ## Scan the locked dependencies for known vulnerabilities (OSV, npm audit)
	@$(BIN)/python scripts/audit.py $(ARGS)

.PHONY: digests
digests: setup ## Update the digests of base images from their registries (with docker)
	@$(BIN)/python scripts/base_images.py renew

.PHONY: page
page: $(PAGE) ## Build the web page if its sources changed (installs Node.js where missing)

$(WEB_MODULES): $(WEB)/package.json $(WEB)/package-lock.json $(WEB)/.npmrc scripts/node.sh scripts/node.lock.txt | setup
	@scripts/node.sh ensure
	@cd $(WEB) && $(WITH_NODE) npm ci --no-audit --no-fund --loglevel=error
	@touch $@

$(PAGE): $(WEB_MODULES) $(PAGE_SOURCES)
	@cd $(WEB) && $(WITH_NODE) npm run build

.PHONY: wheels
wheels: setup page ## Build the wheel that users install: build/wheels
	@rm -rf build/wheels
	@$(BIN)/python -m hatchling build -t wheel -d build/wheels

.PHONY: test-wheels
test-wheels: wheels ## Test the wheel in clean environments, where nothing of the checkout is
	@$(WITH_JAVA) $(BIN)/pytest -q $(TWO_AT_ONCE) tests/wheels $(ARGS)

.PHONY: page-types
page-types: setup $(WEB_MODULES) ## Generate the page's types from the API's schemas
	@$(BIN)/python scripts/api_schema.py print | (cd $(WEB) && $(WITH_NODE) npm run --silent schema)
	@$(BIN)/python scripts/api_schema.py stamp
	@cd $(WEB) && $(WITH_NODE) npx prettier --log-level=warn --write src/api/schema.ts

.PHONY: screenshots
screenshots: setup page ## Take the screenshots that README and docs show
	@scripts/servers.sh ensure
	@$(WITH_JAVA) $(BIN)/python scripts/screenshots.py $(ARGS)

.PHONY: dashboards
dashboards: setup ## Generate Grafana's dashboards into infra/grafana/dashboards
	@$(BIN)/python -m infra.grafana

.PHONY: listener
listener: setup ## Compile SparkWrites.java, the listener that counts Spark's writes
	@scripts/java.sh exec $(BIN)/python scripts/compile_listener.py

.PHONY: docs
docs: setup ## Build the documentation as a site: build/docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

.PHONY: check check-format check-lint check-types check-imports check-lock check-images
check: check-format check-lint check-types check-imports check-lock check-images docs ## Format, lint, types, imports, lock, digests of images (make -k check: all findings)

check-format: setup
	@$(BIN)/ruff format --check .

check-lint: setup
	@$(BIN)/ruff check .
	@# By themselves: for all rules, previews of ruff change what is stable.
	@$(BIN)/ruff check --preview --select D,DOC --ignore D105,D107,DOC502 $(PUBLIC)

check-types: setup
	@$(BIN)/mypy $(TYPED)
	@# type-var: PySpark's stubs take no tuples as sort keys, and an example is a job as anyone writes it.
	@set -e; for folder in $(PROGRAMS); do \
		MYPYPATH=$$folder $(BIN)/mypy --disable-error-code type-var $$folder; done

check-imports: setup
	@# No cache: both keep one note of when files changed, so the second would take what the first has seen as seen.
	@$(BIN)/lint-imports --no-logo --no-cache
	@$(BIN)/lint-imports --no-logo --no-cache --config scripts/import_cycles.toml

check-lock: setup
	@$(BIN)/python scripts/lock.py check

check-images: setup
	@$(BIN)/python scripts/base_images.py check

# Not part of check: it wants Go, or the programs that scripts/kube-tools.sh names.
.PHONY: check-charts
check-charts: setup ## Check the Helm charts (builds helm and other tools with Go where missing)
	@scripts/check-charts.sh

.PHONY: format
format: setup ## Format the code and apply safe lint fixes
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

.PHONY: lock
lock: setup ## Update requirements.lock to the members' requirements, keeping every pin that fits
	@$(BIN)/python scripts/lock.py keep

.PHONY: lock-upgrade
lock-upgrade: setup ## Upgrade requirements.lock to the newest versions that fit
	@$(BIN)/python scripts/lock.py upgrade

.PHONY: clean
clean: ## Remove the environment, caches and outputs of runs
	rm -rf .venv .venv-spark* .tools .lineage uv.lock .mypy_cache .pytest_cache .ruff_cache .hypothesis
	rm -rf $(WEB)/node_modules $(WEB)/e2e/out $(dir $(PAGE))
	rm -rf spark-warehouse metastore_db derby.log benchmarks/out
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
