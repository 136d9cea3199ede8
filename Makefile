# The two commands: `make demo` and `make test`. Everything else is for those who change the code.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PROTO := coordinator/wire/resource_usage_pb2.py
INSTALLED := $(VENV)/.installed
NEW_ENOUGH = $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed, $$($(PYTHON) --version 2>&1) found: set PYTHON=..."; exit 2; }

.PHONY: demo test test-fast check format proto bench clean requirements

demo: requirements  ## a real cluster, three sidecars, a story under load, a summary; POLICY=strict ENFORCE=native PULSAR=5.0.0-M1 STORY=saturated MINUTES=5 PEER=1 KEEP=1 LOOPBACK=::1
	$(BIN)/python -m deploy.demo $(if $(LOOPBACK),--host $(LOOPBACK))

test: needs-test requirements  ## the proof: all that holds however busy the machine is, the real cluster included
	$(BIN)/python -m tests

.PHONY: verify
verify: needs-verify requirements  ## the measurement: rates, shares and latencies, alone on the machine; ONLY=limits for a room
	$(BIN)/python -m tests.verify $(if $(ONLY),--only $(ONLY))

test-fast: needs-test-fast test-quick  ## the tests that need no cluster and no Java

.PHONY: test-release
test-release: needs-test requirements  ## the tests with a cluster, on another release of the brokers: PULSAR=5.0.0-M1
	$(BIN)/python -m tests --pulsar "$(or $(PULSAR),$(error set PULSAR, such as PULSAR=5.0.0-M1))"

# Side by side on all cores.
.PHONY: test-quick
test-quick: $(INSTALLED)
	$(BIN)/python -m pytest -m "not cluster and not java and not verify" --numprocesses auto --maxprocesses 4 --dist worksteal

.PHONY: chaos
chaos: requirements  ## mishaps on a real cluster under load; SEED=7 or SEEDS=1-100, MINUTES=10 EVERY=60 MISHAPS=n or names POLICY=strict ENFORCE=native
	$(BIN)/python -m deploy.chaos

bench: $(VENV)/.bench  ## figures as JSON lines, ours and the peers' of one run; ONLY=law for a part, ROWS=n ROWS_DIR=dir for spark
	@$(BIN)/python -m benchmarks $(if $(ONLY),--only $(ONLY))

.PHONY: docs figures docs-are-current
docs: $(INSTALLED)  ## the documentation as a site in build/docs, which opens without a network
	$(BIN)/python -m benchmarks.pages draw
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet   # the theme advertises its successor

figures: $(INSTALLED)  ## simulate what the documentation shows anew; ONLY=S3 for a part, SEEDS=n
	$(BIN)/python -m benchmarks.pages simulate $(ONLY) $(if $(SEEDS),--seeds $(SEEDS))
	$(BIN)/cog -r -I . docs/*.md

docs-are-current: $(INSTALLED)
	@$(BIN)/cog --check -I . docs/*.md || { echo "a page does not show its data: run 'make figures'"; exit 1; }

.PHONY: seeds
seeds: requirements  ## take the figures of docs/seeds.md from what `make verify` has written
	$(BIN)/python -m benchmarks.pages seeds build/verify.json
	$(BIN)/cog -r -I . docs/seeds.md

.PHONY: fuzz
fuzz: requirements  ## a million damaged streams through the gate's engine, a million mutated frames through it and Pulsar's decoder, a thousand sequences of commands through it and a broker; CASES=n and SEED=n
	$(BIN)/python -m tests.gate.fuzz $(if $(CASES),--cases $(CASES)) $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m tests.decoder $(if $(CASES),--cases $(CASES)) $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m tests.attacks.sequences $(if $(SEED),--seed $(SEED))

.PHONY: clients
clients: requirements  ## stock clients of many releases through the gates of a real cluster; ONLY="java 4" for a part, IDLE=1 for an idle minute as well, PULSAR=5.0.0-M1 for other brokers
	$(BIN)/python -m tests.clients $(if $(ONLY),--only "$(ONLY)") $(if $(IDLE),--idle) $(if $(PULSAR),--pulsar "$(PULSAR)")

.PHONY: fuzz-api
fuzz-api: $(INSTALLED)  ## generated requests to every endpoint of the admin API; CASES=n of each
	PULSAR_QUOTA_FUZZ_EXAMPLES=$(or $(CASES),500) $(BIN)/python -m pytest -q --timeout 0 tests/admin_api/test_fuzz.py

.PHONY: mutants
mutants: $(VENV)/.mutants  ## mistakes put into the core and the gate's engine: which do the tests notice? ONLY=coordinator/core/allocation SAMPLE=200 SEED=1 LEAST=90 JOBS=1
	$(BIN)/python -m tests.mutants $(if $(ONLY),--only $(ONLY)) $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED)) $(if $(LEAST),--least $(LEAST)) $(if $(JOBS),--jobs $(JOBS))

# Each part takes one core: `make --jobs=2 check` has them side by side.
check: style types layers proto-is-current docs-are-current  ## format, lint, types, layers, generated files

.PHONY: style types layers
style: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(INSTALLED)
	$(BIN)/mypy

layers: $(INSTALLED)
	$(BIN)/lint-imports

.PHONY: check-deploy
check-deploy: export PATH := $(PATH):$(CURDIR)/$(BIN)
check-deploy: needs-check-deploy $(INSTALLED)  ## chart, units, rules and dashboard, held against helm, systemd and promtool
	$(BIN)/python -m deploy.check

.PHONY: check-release
check-release: $(INSTALLED)  ## wheel and source distribution, built and installed in a clean environment
	@$(BIN)/python -m deploy.release

.PHONY: sbom audit
sbom: $(VENV)/.audit  ## the bill of materials, of the exact versions in constraints.txt, as CycloneDX in build/sbom.json
	@mkdir -p build
	@$(BIN)/python -W ignore -m cyclonedx_py requirements --pyproject pyproject.toml --output-reproducible --output-file build/sbom.json constraints.txt
	@echo "written: build/sbom.json"

audit: $(VENV)/.audit  ## known holes in these versions, by PyPI's vulnerability service
	@$(BIN)/python -m deploy.audit

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

proto: $(INSTALLED)  ## generate coordinator/wire/resource_usage_pb2.py anew
	$(BIN)/python -m grpc_tools.protoc -I proto --python_out=coordinator/wire --pyi_out=coordinator/wire proto/resource_usage.proto

.PHONY: proto-is-current
proto-is-current: $(INSTALLED)
	@out=$$(mktemp -d) && trap 'rm -rf "$$out"' EXIT && \
	$(BIN)/python -m grpc_tools.protoc -I proto --python_out="$$out" --pyi_out="$$out" proto/resource_usage.proto && \
	for file in resource_usage_pb2.py resource_usage_pb2.pyi; do \
	  cmp "$$out/$$file" "coordinator/wire/$$file" || { echo "$$file is not current: run 'make proto'"; exit 1; }; \
	done && echo "generated files are current"

.PHONY: needs-demo needs-test needs-verify needs-test-fast needs-check-deploy
needs-demo needs-test needs-verify needs-test-fast needs-check-deploy: needs-%:
	@$(NEW_ENOUGH)
	@$(PYTHON) -m deploy.local.requirements $*

requirements: needs-demo $(INSTALLED)  ## says at once when Java or Maven is missing, and fetches Pulsar's jars
	@$(BIN)/python -m deploy.local jars $(if $(PULSAR),--pulsar $(PULSAR))

$(INSTALLED): pyproject.toml constraints.txt coordinator/gate/protocol/_runs.c
	@$(NEW_ENOUGH)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,spark]'
	@touch $@

$(VENV)/.bench: $(INSTALLED)
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[bench]'
	@touch $@

$(VENV)/.mutants: $(INSTALLED)
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[mutants]'
	@touch $@

$(VENV)/.audit: $(INSTALLED)
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[audit]'
	@touch $@

clean:
	rm -rf $(VENV) demo-out build mutants *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
