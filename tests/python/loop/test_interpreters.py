"""Sub-interpreters: each runs its own loops, with its own or a shared GIL."""

from __future__ import annotations

import sys

import pytest

from .conftest import RunScript

# Python 3.12 has interpreters with their own GIL, but asyncio imports `ssl`, which frees memory
# twice at the end of such an interpreter.
pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 13), reason="asyncio cannot be imported there before Python 3.13"
)

PRELUDE = """
import sys, threading, warnings
warnings.simplefilter("ignore")
import _interpreters

def run_in(interpreter, source):
    prelude = f"import sys; sys.path[:] = {sys.path!r}; import asyncio\\n"
    if "penstock" in new_loop.__module__:
        prelude += "from penstock import new_event_loop as new_loop\\n"
    else:
        prelude += "new_loop = asyncio.SelectorEventLoop\\n"
    failure = _interpreters.exec(interpreter, prelude + source)
    if failure is not None:
        print(failure.formatted, failure.errdisplay)
        raise SystemExit(1)

def run_in_threads(sources):
    def work(source):
        interpreter = _interpreters.create(CONFIG)
        try:
            run_in(interpreter, source)
        except BaseException as error:
            failures.append(error)
        finally:
            _interpreters.destroy(interpreter)
    failures = []
    threads = [threading.Thread(target=work, args=(source,)) for source in sources]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise SystemExit(1)
"""

STREAMS_TIMERS_AND_THREADS = """
import threading

async def echo(reader, writer):
    async for line in reader:
        writer.write(line)
        await writer.drain()
    writer.close()

async def talk(address, number):
    reader, writer = await asyncio.open_connection(*address)
    for turn in range(20):
        line = b"%d of %d " % (turn, number) * 100 + b"\\\\n"
        writer.write(line)
        assert await asyncio.wait_for(reader.readline(), 30) == line
        await asyncio.sleep(0)
    writer.close()
    await writer.wait_closed()

async def main():
    loop = asyncio.get_running_loop()
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    await asyncio.gather(*(talk(address, number) for number in range(5)))
    posted = []
    done = asyncio.Event()
    def post():
        for number in range(100):
            loop.call_soon_threadsafe(posted.append, number)
        loop.call_soon_threadsafe(done.set)
    thread = threading.Thread(target=post)
    thread.start()
    await done.wait()
    thread.join()
    assert posted == list(range(100))
    timers = [loop.call_later(0.001 * number, posted.append, number) for number in range(10)]
    timers[3].cancel()
    await asyncio.sleep(0.02)
    assert await asyncio.to_thread(pow, 2, 10) == 1024
    server.close()
    await server.wait_closed()

with asyncio.Runner(loop_factory=new_loop) as runner:
    runner.run(main())
"""

FILES = """
import penstock
from penstock import files

async def main():
    for _ in range(20):
        assert b"penstock" in await files.read_file(files.__file__)
        assert await files.scandir("/")

penstock.run(main())
"""

TLS = """
import ssl

async def echo(reader, writer):
    writer.write(await reader.readline())
    await writer.drain()
    writer.close()

async def main():
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain({certificate!r})
    client_side = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_side.load_verify_locations({authority!r})
    server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=server_side)
    for _ in range(5):
        reader, writer = await asyncio.open_connection(
            *server.sockets[0].getsockname(), ssl=client_side, server_hostname="localhost")
        writer.write(b"hello\\\\n")
        assert await asyncio.wait_for(reader.readline(), 30) == b"hello\\\\n"
        writer.close()
        await writer.wait_closed()
    server.close()
    await server.wait_closed()

with asyncio.Runner(loop_factory=new_loop) as runner:
    runner.run(main())
"""


def check(run_script: RunScript, config: str, call: str, source: str) -> None:
    done = run_script(f'CONFIG = "{config}"\nSOURCE = """{source}"""\n' + PRELUDE + call)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.parametrize("config", ["isolated", "legacy"])
def test_interpreters_in_threads_run_a_loop_each(run_script: RunScript, config: str) -> None:
    check(run_script, config, "run_in_threads([SOURCE] * 4)", STREAMS_TIMERS_AND_THREADS)


@pytest.mark.parametrize("config", ["isolated", "legacy"])
def test_an_interpreter_that_is_run_in_the_main_thread_runs_a_loop(
    run_script: RunScript, config: str
) -> None:
    call = "run_in(_interpreters.create(CONFIG), SOURCE)"
    check(run_script, config, call, STREAMS_TIMERS_AND_THREADS)


def test_a_loop_continues_while_other_interpreters_run_loops(run_script: RunScript) -> None:
    call = """
async def beside():
    other = asyncio.create_task(asyncio.to_thread(run_in_threads, [SOURCE] * 2))
    while not other.done():
        await asyncio.sleep(0.001)
    await other

with asyncio.Runner(loop_factory=new_loop) as runner:
    runner.run(beside())
"""
    check(run_script, "isolated", call, STREAMS_TIMERS_AND_THREADS)


@pytest.mark.usefixtures("only_penstock")
def test_interpreters_in_threads_read_files(run_script: RunScript) -> None:
    check(run_script, "isolated", "run_in_threads([SOURCE] * 4)", FILES)


def test_interpreters_in_threads_use_tls(
    run_script: RunScript, tmp_path_factory: pytest.TempPathFactory
) -> None:
    import trustme

    folder = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "authority"))
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(
        str(folder / "certificate")
    )
    source = TLS.format(
        certificate=str(folder / "certificate"), authority=str(folder / "authority")
    )
    check(run_script, "isolated", "run_in_threads([SOURCE] * 4)", source)
