# The project's jobs. Each first prepares what it needs ('scripts/setup JOB'), so a fresh clone can start with any.

DEMO_ARGS ?=
BENCH_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo build test lint format bench bench-cpp clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## record four simulated instruments (DEMO_ARGS="--duration 10 --rate 20 --out DIR --no-plot")
	@scripts/setup demo
	@.venv/bin/penstock demo $(DEMO_ARGS)

build: ## build the extension module for .venv's Python
	@scripts/setup build

test: ## run every C++ and Python test
	@scripts/setup test
	@scripts/test

lint: ## check style and types: ruff, mypy, clang-format, clang-tidy
	@scripts/setup lint
	@scripts/lint

format: ## rewrite the sources in the project's style
	@scripts/setup lint
	@.venv/bin/ruff check --fix-only --quiet .
	@.venv/bin/ruff format .
	@git ls-files --cached --others --exclude-standard '*.cpp' '*.hpp' '*.h' | xargs -r clang-format-19 -i

bench: ## measure against the other event loops (BENCH_ARGS="...")
	@scripts/setup bench
	@if [ -x build/venv-3.13/bin/python ]; then python=build/venv-3.13/bin/python; else python=.venv/bin/python; fi; \
	$$python benchmarks/run.py $(BENCH_ARGS)

bench-cpp: ## measure the coroutine library against Asio, libuv and raw epoll (BENCH_ARGS="...")
	@scripts/setup bench
	@for page in cpp_echo cpp_sequential cpp_stream cpp_tasks; do .venv/bin/python benchmarks/run.py $$page $(BENCH_ARGS) || exit; done

clean: ## remove what the builds left; the virtual environment stays
	rm -rf build python/penstock/_*.so
