# `make` alone says what there is.
.DEFAULT_GOAL := help
.PHONY: help setup test cover lint format types docs lock ci clean
PYTHON ?= python3
BIN := .venv/bin

help:  ## Say what there is
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: .venv/ready  ## Make .venv with the package and everything pinned

.venv/ready: requirements-dev.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -r requirements-dev.lock -e .
	@touch $@

test: setup  ## Run the tests
	$(BIN)/pytest -q

cover: setup  ## Run the tests and say which branches they leave out
	$(BIN)/pytest -q -n auto --cov

lint: setup  ## Check style and complexity
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: setup  ## Put code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: setup  ## Check types
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python

docs: setup  ## Build the documentation into site/
	$(BIN)/pip install -q mkdocs-material 'mkdocstrings[python]'
	$(BIN)/mkdocs build --strict

lock: setup  ## Pin the newest versions of everything (needs uv)
	uv pip compile pyproject.toml --extra agents --extra cli --extra otel \
	  --extra analysis --extra workspace --extra fleet --extra embeddings --extra mcp \
	  --extra secrets --extra testing \
	  --group dev --universal --upgrade -q \
	  --python-version 3.11 --no-emit-index-url --no-annotate --no-header \
	  -o requirements-dev.lock

ci:  ## Run everything that has to hold before a change lands
	.ci/run

clean:  ## Remove what the tools leave behind
	rm -rf .venv site .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
