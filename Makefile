# Sets up and runs everything a checkout needs: plain pip, one virtual environment, no other service.
# `make PYTHON=/path/to/python3.12 ...` names the interpreter; otherwise the first of these that serves.

PYTHONS = $(or $(PYTHON),python3.13 python3.12 python3.11 python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
PEERS := .venv-bench
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
# Published as source alone; built here, from the file whose digest is locked.
SOURCES := dkimpy

.PHONY: help venv lint type test bench demo lock clean debian-tools
MAKEFLAGS += --no-print-directory
unexport PYTHONHOME PYTHONPATH

# Whatever the stamp says, an environment that does not hold this checkout is not installed.
ifneq ($(shell $(BIN)/python -c 'import sendledger; print(*sendledger.__path__)' 2>/dev/null),$(CURDIR)/core/sendledger)
.PHONY: $(STAMP)
endif

# $(call first_python,MODULE) prints the first interpreter new enough that has MODULE.
first_python = for python in $(PYTHONS); do \
	  if "$$python" -c 'import sys, $(1); sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	  then echo "$$python"; break; fi; done

# $(call say,WHAT) announces a step.
say = printf '\n==> %s\n' "$(1)"

# $(call debian_install,PACKAGE) installs it as root on Debian; it fails elsewhere.
debian_install = { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && { $(call say,Installing the Debian package $(1)); apt-get update -qq \
	  && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $(1); }; }

# $(call debian_dormant,PACKAGE) installs it without starting its server: policy-rc.d is asked before each start.
debian_dormant = { policy=/usr/sbin/policy-rc.d; [ "$$(id -u)" = 0 ] && [ ! -e $$policy ] || policy=; \
	  [ -z "$$policy" ] || { printf '%s\n' '\#!/bin/sh' 'exit 101' > $$policy; chmod 755 $$policy; }; \
	  $(call debian_install,$(1)); installed=$$?; [ -z "$$policy" ] || rm -f $$policy; [ $$installed = 0 ]; }

# $(call debian_unpack,PACKAGE) puts its programs into $(VENV)/debian; to install it would start its server.
debian_unpack = { command -v apt-get >/dev/null \
	  && { $(call say,Unpacking the Debian package $(1)); [ "$$(id -u)" != 0 ] || apt-get update -qq; } \
	  && rm -rf build/debian && mkdir -p build/debian $(VENV)/debian \
	  && (cd build/debian && apt-get -o APT::Sandbox::User=root download -qq $(1)) \
	  && dpkg-deb --fsys-tarfile build/debian/$(1)_*.deb | tar -x -C $(VENV)/debian ./usr \
	  && rm -rf build/debian; }

# $(call debian_libraries,PACKAGE) installs the libraries that its programs need, and nothing else of it.
debian_libraries = { libraries=$$(apt-cache depends $(1) | sed -n 's/^ *Depends: \(lib[^ ]*\)$$/\1/p'); \
	  dpkg -s $$libraries >/dev/null 2>&1 || $(call debian_install,$$libraries); }

# An environment is whole when it has pip and its scripts point into this folder.
whole_environment = { grep -qsF '$(CURDIR)/$(VENV)' $(BIN)/activate && $(BIN)/python -m pip --version >/dev/null 2>&1; }

help: ## List what make can do
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-6s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

venv: $(STAMP) ## Make the virtual environment in .venv, with every package at its locked version
	@echo 'The virtual environment $(VENV) is ready.'

$(STAMP): requirements.lock pyproject.toml
	@python=$$($(call first_python,ensurepip)); \
	if [ -z "$$python" ] && [ -n "$$($(call first_python,sys))" ]; then \
	  $(call debian_install,python3-venv) && python=$$($(call first_python,ensurepip)); \
	  [ -n "$$python" ] || { echo 'make: this Python cannot make virtual environments; on Debian, as root:' \
	    'apt-get install python3-venv' >&2; exit 1; }; \
	fi; \
	[ -n "$$python" ] || { echo 'make: found no Python 3.11 or later (looked for: $(PYTHONS));' \
	  'install one, or name it: make PYTHON=/path/to/python' >&2; exit 1; }; \
	$(whole_environment) || { \
	  $(call say,Making the virtual environment $(VENV) with $$python); "$$python" -m venv --clear $(VENV); }
	@$(call say,Installing the locked packages)
	@$(PIP) install --require-hashes --only-binary :all: --no-binary $(SOURCES) -r requirements.lock
	@$(call say,Installing Sendledger from this checkout)
	@$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@touch $(STAMP)

lint: $(STAMP) ## Check style, formatting, layers and migrations
	@$(call say,Style: ruff)
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(call say,Layers: import-linter)
	@$(BIN)/lint-imports
	@$(call say,Migrations: squawk)
	@$(BIN)/python -c 'from sendledger.store.migrate import offline_sql; print(offline_sql())' > $(VENV)/migrations.sql
	@$(BIN)/squawk --config .squawk.toml $(VENV)/migrations.sql

type: $(STAMP) ## Check types; the first time takes a minute
	@$(call say,Types: mypy)
	@$(BIN)/mypy --strict

debian-tools:
	@command -v openssl >/dev/null || $(call debian_install,openssl) \
	|| echo 'make: openssl is missing, tests that need it are skipped; as root: apt-get install openssl'
	@[ -x $(VENV)/debian/usr/bin/prometheus ] || { command -v prometheus && command -v promtool; } >/dev/null \
	|| $(call debian_unpack,prometheus) \
	|| echo 'make: prometheus is missing, tests of the alerts are skipped; as root: apt-get install prometheus'
	@[ -x /usr/lib/postgresql/15/bin/initdb ] || $(call debian_dormant,postgresql-15) \
	|| echo 'make: PostgreSQL 15 is missing, tests with it are skipped; as root: apt-get install postgresql-15'
	@[ -x /usr/sbin/pgbouncer ] || command -v pgbouncer >/dev/null || $(call debian_dormant,pgbouncer) \
	|| echo 'make: pgbouncer is missing, tests with it are skipped; as root: apt-get install pgbouncer'
	@[ -x /usr/lib/postfix/sbin/master ] || [ -x $(VENV)/debian/usr/lib/postfix/sbin/master ] \
	|| { $(call debian_unpack,postfix) && $(call debian_libraries,postfix); } \
	|| echo 'make: postfix is missing, tests with it are skipped; as root: apt-get install postfix'
	@ls /usr/lib/*/faketime/libfaketime.so.1 >/dev/null 2>&1 || $(call debian_install,libfaketime) \
	|| echo 'make: libfaketime is missing, tests of other clocks are skipped; as root: apt-get install libfaketime'
	@command -v npm >/dev/null || $(call debian_install,npm) \
	|| echo 'make: npm is missing, the test of the API description is skipped; as root: apt-get install npm'

test: lint type debian-tools ## Check and test everything; what every change must pass
	@$(call say,Tests: pytest)
	@$(BIN)/python -m pytest -n 2 --dist loadgroup

$(PEERS)/installed: pyproject.toml | $(STAMP)
	@$(call say,Making the environment $(PEERS) of the peers)
	@$(BIN)/python -m venv --clear $(PEERS)
	@$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"] \
	  ["optional-dependencies"]["bench"], sep="\n")' > $(PEERS)/requirements.txt
	@$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -r $(PEERS)/requirements.txt
	@touch $@

bench: $(STAMP) $(PEERS)/installed debian-tools ## Measure, beside procrastinate and pgqueuer; ARGS='--quick ledger' narrows it
	@PYTHONPATH=tests $(BIN)/python -m benchmarks.run $(ARGS)

demo: $(STAMP) ## Send 240 emails and 240 SMS to next hops on this machine, and see what is known of each
	@$(BIN)/python demo/run.py

lock: $(STAMP) ## Write requirements.lock again from pyproject.toml; ARGS=--upgrade takes newer versions
	@$(call say,Making a throw-away environment for pip-tools)
	@$(BIN)/python -m venv --clear build/lock
	@build/lock/bin/python -m pip install --quiet pip-tools
	@$(call say,Resolving; this takes a minute)
	@CUSTOM_COMPILE_COMMAND='make lock' build/lock/bin/pip-compile --quiet --extra dev --build-deps-for editable \
	  --generate-hashes --strip-extras --allow-unsafe --no-emit-options --output-file requirements.lock $(ARGS) pyproject.toml
	@rm -r build/lock

clean: ## Remove the virtual environment, caches and builds; never a ledger
	rm -rf $(VENV) $(PEERS) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage
	find core plugins migrations tests demo -name __pycache__ -type d -prune -exec rm -rf {} +
