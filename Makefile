# The project's jobs. Each first prepares the machine ('scripts/setup JOB'), so a new clone can start with any of them.

DEMO_ARGS ?=
CHECK ?=
BENCH_ARGS ?=
DIST_ARGS ?=
FUZZ_ARGS ?=
SOAK_SECONDS ?= 600
SOAK_ALICAT_SECONDS ?= 3600
SOAK_ARCHIVE_SECONDS ?= 1800

.DEFAULT_GOAL := help
.PHONY: help demo build check test gate conformance fuzz soak lint format docs bench bench-cpp dist clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## record four simulated instruments (DEMO_ARGS="--duration 10 --rate 20 --out DIR --no-plot --dash")
	@scripts/setup demo $(if $(findstring --dash,$(DEMO_ARGS)),dash)
	@.venv/bin/penstock demo $(DEMO_ARGS)

build: ## build the extension module for .venv's Python
	@scripts/setup build

check: ## a verdict in minutes, without browser and servers (CHECK="alicat record", CHECK=http or CHECK=changed for less)
	@scripts/setup check
	@scripts/check $(CHECK)

test: ## run all Python tests on the machine's CPython, the C++ tests plain and under ASan, the extension under ASan, ruff and mypy
	@scripts/setup test
	@scripts/test

gate: ## run the rest too: TSan, libc++, the other CPythons, what 'make lint' and 'make docs' do
	@scripts/setup test lint docs
	@scripts/test; tests=$$?; scripts/gate lint docs && exit $$tests

conformance: ## run CPython's own tests of asyncio on the loop, on each CPython, and the Autobahn test suite
	@scripts/setup test
	@status=0; for venv in .venv build/venv-*; do \
	    $$venv/bin/python tests/conformance/cpython_tests.py penstock:new_event_loop || status=1; \
	    PENSTOCK_REQUIRE_LOOPS=1 $$venv/bin/python -m pytest -o cache_dir=build/pytest-cache-conformance tests/conformance/test_cpython_asyncio.py || status=1; \
	done; \
	PYTHONPATH=python .venv/bin/python tests/conformance/autobahn.py || status=1; \
	PYTHONPATH=python .venv/bin/python tests/conformance/autobahn.py --asgi || status=1; \
	PYTHONPATH=python .venv/bin/python tests/conformance/autobahn.py --asgi --no-deflate || status=1; \
	cmake --preset optimised >/dev/null && cmake --build --preset optimised --target autobahn_peer || status=1; \
	.venv/bin/python tests/conformance/autobahn.py --program build/optimised/tests/cpp/coro/autobahn_peer || status=1; \
	exit $$status

fuzz: ## run random programs in Python and C++ (FUZZ_ARGS="--minutes 30 --seed 1 --gc-threshold 10")
	@scripts/setup test
	@cmake --preset asan >/dev/null && cmake --build --preset asan
	@.venv/bin/python scripts/fuzz.py $(FUZZ_ARGS)

soak: ## disturb eight serial ports at random on each loop, poll instruments under faults, then kill recorders, then archivers and their server (SOAK_SECONDS=600 SOAK_ALICAT_SECONDS=3600 SOAK_ARCHIVE_SECONDS=1800)
	@scripts/setup test
	@for loop in penstock asyncio uvloop trio; do \
	    PYTHONPATH=.:python .venv/bin/python benchmarks/serial_ports/soak.py --loop $$loop --ports 8 --seconds $(SOAK_SECONDS) || exit; \
	done
	@PYTHONPATH=.:python .venv/bin/python -m tests.python.sim.pty_run --seconds $(SOAK_ALICAT_SECONDS) --result tests/results/alicat_soak.md
	@PYTHONPATH=.:python .venv/bin/python -m tests.python.record.crashes --kills 200 --out tests/results/recording_crashes.json
	@PYTHONPATH=.:python .venv/bin/python -m tests.python.record.archive_soak --seconds $(SOAK_ARCHIVE_SECONDS) --out tests/results/archive_soak.json

lint: ## check style and types: addresses, ruff, mypy, clang-format, clang-tidy
	@scripts/setup lint
	@scripts/lint

format: ## rewrite the sources in the project's style
	@scripts/setup lint
	@.venv/bin/ruff check --fix-only --quiet .
	@.venv/bin/ruff format .
	@git ls-files --cached --others --exclude-standard '*.cpp' '*.hpp' '*.h' | xargs -r clang-format-19 -i

docs: ## build the documentation site in build/docs; a broken link or an undescribed public name is an error
	@scripts/setup docs
	@.venv/bin/python scripts/site/build.py

bench: ## measure against the other event loops (BENCH_ARGS="...")
	@scripts/setup bench
	@if [ -x build/venv-3.13/bin/python ]; then python=build/venv-3.13/bin/python; else python=.venv/bin/python; fi; \
	$$python benchmarks/run.py $(BENCH_ARGS)

bench-cpp: ## measure the coroutine library against Asio, libuv and raw epoll (BENCH_ARGS="...")
	@scripts/setup bench
	@for page in cpp_echo cpp_sequential cpp_stream cpp_tasks cpp_tls cpp_http cpp_websocket cpp_websocket_sequential cpp_websocket_client cpp_websocket_steps; do .venv/bin/python benchmarks/run.py $$page $(BENCH_ARGS) || exit; done

dist: ## build and try the source distribution, wheels, the C++ package and the bill of materials, in dist (DIST_ARGS="wheels")
	@scripts/setup dist
	@scripts/dist $(DIST_ARGS)

clean: ## remove build output; keep the virtual environment
	rm -rf build python/penstock/_*.so
