# The two commands: `make demo` and `make test`. Everything else is for those who change the code.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PROTO := coordinator/wire/resource_usage_pb2.py
INSTALLED := $(VENV)/.installed

.PHONY: demo test test-fast check format proto bench clean requirements

demo: $(INSTALLED) requirements  ## a real cluster, three sidecars, a story under load, a summary; POLICY=strict
	$(BIN)/python -m deploy.demo

test: $(INSTALLED) requirements  ## all tests, the real cluster included
	$(BIN)/python -m pytest

test-fast: $(INSTALLED)  ## the tests that need no cluster
	$(BIN)/python -m pytest -m "not cluster"

.PHONY: chaos
chaos: $(INSTALLED) requirements  ## mishaps on a real cluster under load; SEED=7 or SEEDS=1-100, MINUTES=10 EVERY=60 MISHAPS=n or names POLICY=strict
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

.PHONY: fuzz
fuzz: $(INSTALLED)  ## a million damaged streams through the gate's engine; CASES=n and SEED=n
	$(BIN)/python -m tests.gate.fuzz $(if $(CASES),--cases $(CASES)) $(if $(SEED),--seed $(SEED))

.PHONY: fuzz-api
fuzz-api: $(INSTALLED)  ## generated requests to every endpoint of the admin API; CASES=n of each
	PULSAR_QUOTA_FUZZ_EXAMPLES=$(or $(CASES),500) $(BIN)/python -m pytest -q --timeout 0 tests/admin_api/test_fuzz.py

check: $(INSTALLED)  ## format, lint, types, layers, generated files
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MAKE) --no-print-directory proto-is-current docs-are-current

.PHONY: check-deploy
check-deploy: $(INSTALLED)  ## image, compose, chart, unit and rules, held against promtool, helm and systemd
	$(BIN)/python -m deploy.check

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

requirements: $(INSTALLED)  ## says at once when Java or Maven is missing, and fetches Pulsar's jars
	@$(BIN)/python -m deploy.local jars

$(INSTALLED): pyproject.toml constraints.txt coordinator/gate/_runs.c
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed, $$($(PYTHON) --version) found: set PYTHON=..."; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,spark]'
	@touch $@

$(VENV)/.bench: $(INSTALLED)
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[bench]'
	@touch $@

$(VENV)/.audit: $(INSTALLED)
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[audit]'
	@touch $@

clean:
	rm -rf $(VENV) demo-out build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
