# make demo         a guided tour on the demo servers
# make test         run every test; some: make test ARGS="tests/config -x"
# make unit         the tests that need no downloads and no Linux: what CI runs on macOS
# make check        linters, types, import rules
# make format       format the code
# make bench        measure it next to other programs, and with BASE=FOLDER next to another worktree
# make fuzz         random bytes and shapes: make fuzz EXAMPLES=20000
# make nemesis      random faults: make nemesis SECONDS=600 SEED=7
# make soak         eight clients for ten minutes; fails on leaks: make soak SECONDS=60
# make conformance  the official suite, directly and through the workbench
# make matrix       official clients on every surface, with servers of every kind
# make firsthour    real hosts and servers from npm, from import to uninstall
# make pictures     render the pictures of docs/gallery.md
# make schema       regenerate workbench-config.schema.json
# make clean        remove what the other commands created

PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= auto
# What downloads servers and clients, or looks at processes as only Linux shows them.
SYSTEM_TESTS := benchmarks conformance e2e faults fuzz matrix nemesis soak
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test unit check format bench fuzz nemesis soak conformance matrix firsthour pictures schema clean help

help:
	@sed -n 's/^# //p' Makefile

demo: .venv/run
	$(BIN)/mcp-workbench demo

test: .venv/dev
	$(BIN)/python tests/e2e/install.py
	$(BIN)/python -m pytest --numprocesses $(WORKERS) $(ARGS)

unit: .venv/dev
	$(BIN)/python -m pytest --numprocesses $(WORKERS) -m 'not downloads' $(addprefix --ignore=tests/,$(SYSTEM_TESTS)) $(ARGS)

check: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

format: .venv/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: export BENCH_BASE := $(BASE)
bench: .venv/run
	$(BIN)/python benchmarks/gateway.py --plot docs/pictures/gateways.svg $(ARGS)
	$(BIN)/python benchmarks/over_http.py
	$(BIN)/python benchmarks/routing.py
	$(BIN)/python benchmarks/catalog.py
	$(BIN)/python benchmarks/recording.py
	$(BIN)/python benchmarks/startup.py

nemesis: .venv/dev
	$(BIN)/python -m tests.nemesis.run --seconds $(or $(SECONDS),60) $(if $(SEED),--seed $(SEED))

soak: .venv/dev
	$(BIN)/python -m tests.soak.run --seconds $(or $(SECONDS),600)

conformance: .venv/dev
	$(BIN)/python -m tests.conformance.run $(ARGS)

matrix: .venv/dev
	$(BIN)/python tests/e2e/install.py matrix
	$(BIN)/python -m pytest tests/matrix/matrix.py $(ARGS)

firsthour: .venv/dev
	$(BIN)/python tests/e2e/install.py firsthour
	$(BIN)/python -m pytest tests/e2e/first_hour.py $(ARGS)

pictures: .venv/dev
	$(BIN)/python -m docs.pictures.make $(ARGS)

fuzz: .venv/dev
	FUZZ_EXAMPLES=$(or $(EXAMPLES),5000) $(BIN)/python -m pytest tests/fuzz --timeout 0 $(ARGS)

schema: .venv/run
	$(BIN)/mcp-workbench schema > workbench-config.schema.json

clean:
	rm -rf .venv .cache .pytest_cache .ruff_cache .hypothesis build dist

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "MCP Workbench needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv .venv

.venv/run: .venv/bin/python pyproject.toml constraints.txt
	$(INSTALL) --editable .
	@touch $@

.venv/dev: .venv/run
	$(INSTALL) --editable '.[test,lint]'
	@touch $@
