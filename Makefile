# The project's jobs. Each first prepares what it needs ('scripts/setup JOB'), so a fresh clone can start with any.

DEMO_ARGS ?=
BENCH_ARGS ?=
FUZZ_ARGS ?=
SOAK_SECONDS ?= 600

.DEFAULT_GOAL := help
.PHONY: help demo build test conformance fuzz soak lint format bench bench-cpp clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## record four simulated instruments (DEMO_ARGS="--duration 10 --rate 20 --out DIR --no-plot")
	@scripts/setup demo
	@.venv/bin/penstock demo $(DEMO_ARGS)

build: ## build the extension module for .venv's Python
	@scripts/setup build

test: ## run every C++ and Python test
	@scripts/setup test
	@scripts/test

conformance: ## run CPython's own tests of asyncio on the loop, on each CPython, test by test
	@scripts/setup test
	@status=0; for venv in .venv build/venv-*; do \
	    $$venv/bin/python tests/conformance/cpython_tests.py penstock:new_event_loop || status=1; \
	    PENSTOCK_REQUIRE_LOOPS=1 $$venv/bin/python -m pytest -o cache_dir=build/pytest-cache-conformance tests/conformance/test_cpython_asyncio.py || status=1; \
	done; exit $$status

fuzz: ## run random programs in Python and C++ (FUZZ_ARGS="--minutes 30 --seed 1 --gc-threshold 10")
	@scripts/setup test
	@cmake --preset asan >/dev/null && cmake --build --preset asan
	@.venv/bin/python scripts/fuzz.py $(FUZZ_ARGS)

soak: ## disturb eight serial ports on each loop, and look for wrong bytes (SOAK_SECONDS=600)
	@scripts/setup test
	@for loop in penstock asyncio uvloop trio; do \
	    PYTHONPATH=.:python .venv/bin/python benchmarks/serial_ports/soak.py --loop $$loop --ports 8 --seconds $(SOAK_SECONDS) || exit; \
	done

lint: ## check style and types: addresses, ruff, mypy, clang-format, clang-tidy
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
