# One command each, the same on a laptop and in CI.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# On Linux, PyPI's torch is a CUDA build of several GB. The CPU build is far smaller:
#   make demo TORCH_INDEX=https://download.pytorch.org/whl/cpu
TORCH_INDEX ?=
PIP := $(BIN)/pip install --quiet --disable-pip-version-check $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))

.DEFAULT_GOAL := help
.PHONY: help demo serve test lint check format build benchmark engine-release clean

help: ## show this
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

demo: $(VENV)/.demo ## answer one question with DFlash on this CPU, beside plain decoding
	$(BIN)/dflash chat smollm2-135m --compare --ask "Give me three tips for sleeping better."

serve: $(VENV)/.demo ## leave the demo server running on port 8000
	$(BIN)/dflash serve smollm2-135m

test: $(VENV)/.dev ## run every test that needs no GPU
	$(BIN)/python -m pytest -n 2 --no-loadscope-reorder

lint: $(VENV)/.dev ## style: ruff's rules and its format
	$(BIN)/ruff check
	$(BIN)/ruff format --check

check: $(VENV)/.dev ## types, the order of the layers, and the registry
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/dflash registry check

format: $(VENV)/.dev ## rewrite the code in the project's format
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

build: $(VENV)/.dev ## the wheel and the source archive, into dist/
	$(BIN)/python -m build

benchmark: $(VENV)/.dev ## start-up time, and the embedded engine against plain decoding
	$(BIN)/python benchmarks/startup.py
	$(BIN)/dflash chat smollm2-135m --weights q4_1 --ask Hello --max-tokens 4 # fetches the weights
	$(BIN)/python benchmarks/embedded.py $$($(BIN)/python -m dflash_deploy plan smollm2-135m --weights q4_1 --json | $(BIN)/python -c 'import json, sys; print(json.load(sys.stdin)["target"]["path"])') registry/drafts/smollm2-135m-dflash --tokens 96

engine-release: $(VENV)/.dev ## read a release's flags and check every plan: ENGINE=vllm VERSION=0.33.0
	@test -n "$(ENGINE)" -a -n "$(VERSION)" || { echo "make engine-release ENGINE=vllm VERSION=0.33.0" >&2; exit 2; }
	TORCH_INDEX="$(TORCH_INDEX)" $(BIN)/python tools/engine_release.py $(ENGINE) $(VERSION)

clean: ## remove what the targets above made
	rm -rf $(VENV) dist .contract .mypy_cache .pytest_cache .ruff_cache

$(VENV)/.demo: pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "no $(PYTHON): install Python 3.11 or newer, or say make PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is older than 3.11: make PYTHON=python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@echo "installing torch and the rest into $(VENV) (a few minutes, once)"
	$(PIP) torch==2.13.0
	$(PIP) --editable '.[local]'
	@touch $@

$(VENV)/.dev: $(VENV)/.demo
	$(PIP) --editable '.[local,dev]'
	@touch $@
