"""Signals: the loop's handlers, KeyboardInterrupt, the wake-up descriptor."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from .conftest import LoopFactory, Run, RunScript


@pytest.fixture(autouse=True)
def restored_signals() -> Iterator[None]:
    numbers = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT)
    found = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in found.items():
        assert signal.getsignal(number) == handler
    wakeup = signal.set_wakeup_fd(-1)
    assert wakeup == -1


def to_main_thread(number: int) -> None:
    identity = threading.main_thread().ident
    assert identity is not None
    signal.pthread_kill(identity, number)


def to_main_thread_once_running(loop: asyncio.AbstractEventLoop, number: int) -> None:
    running = threading.Event()
    loop.call_soon_threadsafe(running.set)
    assert running.wait(30)
    to_main_thread(number)


def test_a_signal_calls_its_handler_with_its_arguments(loop: asyncio.AbstractEventLoop) -> None:
    seen: list[tuple[int, ...]] = []

    def handler(*arguments: int) -> None:
        seen.append(arguments)
        loop.stop()

    loop.add_signal_handler(signal.SIGUSR1, handler, 1, 2)
    loop.call_soon(os.kill, os.getpid(), signal.SIGUSR1)
    loop.run_forever()
    assert seen == [(1, 2)]
    assert loop.remove_signal_handler(signal.SIGUSR1) is True
    assert loop.remove_signal_handler(signal.SIGUSR1) is False


def test_a_signal_wakes_an_idle_loop(
    loop: asyncio.AbstractEventLoop, in_thread: Callable[..., threading.Thread]
) -> None:
    loop.add_signal_handler(signal.SIGUSR1, loop.stop)
    for _ in range(20):
        in_thread(to_main_thread_once_running, loop, signal.SIGUSR1)
        loop.run_forever()
    loop.remove_signal_handler(signal.SIGUSR1)


def test_a_signal_while_the_loop_is_not_running_is_kept(loop: asyncio.AbstractEventLoop) -> None:
    loop.add_signal_handler(signal.SIGUSR1, loop.stop)
    os.kill(os.getpid(), signal.SIGUSR1)
    loop.run_forever()
    loop.remove_signal_handler(signal.SIGUSR1)


def test_a_signal_between_two_runs_is_kept(loop: asyncio.AbstractEventLoop) -> None:
    seen: list[str] = []
    loop.call_soon(loop.add_signal_handler, signal.SIGUSR1, seen.append, "signal")
    loop.call_soon(loop.stop)
    loop.run_forever()
    os.kill(os.getpid(), signal.SIGUSR1)
    for _ in range(5):
        loop.call_soon(loop.stop)
        loop.run_forever()
    assert seen == ["signal"]
    loop.remove_signal_handler(signal.SIGUSR1)


def test_a_handler_that_removes_itself_leaves_no_wake_up_descriptor(
    loop: asyncio.AbstractEventLoop,
) -> None:
    def handle() -> None:
        loop.remove_signal_handler(signal.SIGUSR1)
        loop.stop()

    loop.add_signal_handler(signal.SIGUSR1, handle)
    os.kill(os.getpid(), signal.SIGUSR1)
    loop.run_forever()
    assert signal.set_wakeup_fd(-1) == -1


def test_several_signals_have_separate_handlers(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        arrived = {number: asyncio.Event() for number in (signal.SIGUSR1, signal.SIGUSR2)}
        for number, event in arrived.items():
            loop.add_signal_handler(number, event.set)
        os.kill(os.getpid(), signal.SIGUSR2)
        await arrived[signal.SIGUSR2].wait()
        assert not arrived[signal.SIGUSR1].is_set()
        os.kill(os.getpid(), signal.SIGUSR1)
        await arrived[signal.SIGUSR1].wait()
        for number in arrived:
            assert loop.remove_signal_handler(number)

    run(main())


def test_a_new_handler_replaces_the_old_one(loop: asyncio.AbstractEventLoop) -> None:
    seen: list[str] = []
    loop.add_signal_handler(signal.SIGUSR1, seen.append, "old")
    loop.add_signal_handler(signal.SIGUSR1, lambda: (seen.append("new"), loop.stop()))
    loop.call_soon(os.kill, os.getpid(), signal.SIGUSR1)
    loop.run_forever()
    loop.remove_signal_handler(signal.SIGUSR1)
    assert seen == ["new"]


def test_a_handler_that_raises_is_reported(
    loop: asyncio.AbstractEventLoop, contexts: list[dict[str, Any]]
) -> None:
    def fail() -> None:
        loop.stop()
        raise LookupError("meant")

    loop.add_signal_handler(signal.SIGUSR1, fail)
    loop.call_soon(os.kill, os.getpid(), signal.SIGUSR1)
    loop.run_forever()
    loop.remove_signal_handler(signal.SIGUSR1)
    assert [type(context["exception"]) for context in contexts] == [LookupError]


def test_removal_restores_the_default(loop: asyncio.AbstractEventLoop) -> None:
    loop.add_signal_handler(signal.SIGUSR1, print)
    assert signal.getsignal(signal.SIGUSR1) not in (signal.SIG_DFL, None)
    loop.remove_signal_handler(signal.SIGUSR1)
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL
    loop.add_signal_handler(signal.SIGINT, print)
    loop.remove_signal_handler(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_close_removes_every_handler(new_loop: LoopFactory) -> None:
    loop = new_loop()
    loop.add_signal_handler(signal.SIGUSR1, print)
    loop.add_signal_handler(signal.SIGUSR2, print)
    loop.close()
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL
    assert signal.getsignal(signal.SIGUSR2) == signal.SIG_DFL


def test_close_restores_the_wake_up_descriptor(new_loop: LoopFactory) -> None:
    loop = new_loop()
    loop.add_signal_handler(signal.SIGUSR1, loop.stop)
    loop.call_soon(os.kill, os.getpid(), signal.SIGUSR1)
    loop.run_forever()
    loop.remove_signal_handler(signal.SIGUSR1)
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert signal.set_wakeup_fd(-1) == -1
    loop.add_signal_handler(signal.SIGUSR1, loop.stop)
    loop.close()
    assert signal.set_wakeup_fd(-1) == -1


def test_system_calls_are_restarted_under_a_handler(loop: asyncio.AbstractEventLoop) -> None:
    loop.add_signal_handler(signal.SIGUSR1, loop.stop)
    read, write = os.pipe()
    os.kill(os.getpid(), signal.SIGUSR1)
    os.write(write, b"x")
    assert os.read(read, 1) == b"x"
    loop.run_forever()
    loop.remove_signal_handler(signal.SIGUSR1)
    os.close(read)
    os.close(write)


def test_invalid_signals_are_refused(loop: asyncio.AbstractEventLoop) -> None:
    for number in (0, -1, 1000):
        with pytest.raises(ValueError, match=r"invalid signal number|out of range"):
            loop.add_signal_handler(number, print)
        with pytest.raises(ValueError, match=r"invalid signal number|out of range"):
            loop.remove_signal_handler(number)
    with pytest.raises(TypeError):
        loop.add_signal_handler("SIGUSR1", print)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="sig 9 cannot be caught"):
        loop.add_signal_handler(signal.SIGKILL, print)


def test_a_coroutine_is_refused_as_a_handler(loop: asyncio.AbstractEventLoop) -> None:
    async def handler() -> None: ...

    with pytest.raises(TypeError, match="coroutines cannot be used with add_signal_handler"):
        loop.add_signal_handler(signal.SIGUSR1, handler)


def test_another_thread_cannot_add_a_handler(
    loop: asyncio.AbstractEventLoop, in_thread: Callable[..., threading.Thread]
) -> None:
    def add() -> None:
        with pytest.raises((ValueError, RuntimeError)):
            loop.add_signal_handler(signal.SIGUSR1, print)

    in_thread(add).join(30)


def test_a_loop_in_another_thread_does_not_affect_the_main_threads_signals(
    new_loop: LoopFactory, in_thread: Callable[..., threading.Thread]
) -> None:
    def body() -> None:
        loop = new_loop()
        loop.run_until_complete(asyncio.sleep(0.001))
        loop.close()

    in_thread(body).join(30)


@pytest.mark.parametrize("raised_in", ["idle", "callback"])
def test_sigint_raises_keyboard_interrupt(
    loop: asyncio.AbstractEventLoop,
    in_thread: Callable[..., threading.Thread],
    raised_in: str,
) -> None:
    if raised_in == "idle":
        in_thread(to_main_thread_once_running, loop, signal.SIGINT)
    else:
        loop.call_soon(signal.raise_signal, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        loop.run_forever()
    assert not loop.is_running()
    assert loop.run_until_complete(asyncio.sleep(0, "goes on")) == "goes on"


@pytest.mark.parametrize("idle", [True, False])
def test_the_runner_cancels_its_task_on_sigint(
    new_loop: LoopFactory, in_thread: Callable[..., threading.Thread], idle: bool
) -> None:
    seen: list[str] = []

    async def main() -> None:
        if idle:
            in_thread(to_main_thread, signal.SIGINT)
        try:
            while True:
                if idle:
                    await asyncio.sleep(60)
                else:
                    signal.raise_signal(signal.SIGINT)
                    await asyncio.sleep(0)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    with asyncio.Runner(loop_factory=new_loop) as runner, pytest.raises(KeyboardInterrupt):
        runner.run(main())
    assert seen == ["cancelled"]


def test_a_python_handler_that_raises_ends_the_run(
    loop: asyncio.AbstractEventLoop, in_thread: Callable[..., threading.Thread]
) -> None:
    # asyncio reports any other exception that a handler raises during a callback.
    class Alarm(KeyboardInterrupt):
        pass

    def handler(*_: object) -> None:
        raise Alarm

    previous = signal.signal(signal.SIGUSR1, handler)
    try:
        in_thread(to_main_thread_once_running, loop, signal.SIGUSR1)
        with pytest.raises(Alarm):
            loop.run_forever()
    finally:
        signal.signal(signal.SIGUSR1, previous)


@pytest.mark.usefixtures("only_penstock")  # asyncio may have read the number when it is interrupted
@pytest.mark.parametrize("first", ["the loop's", "the one that raises"])
def test_a_signal_beside_one_that_ends_the_run_is_kept_for_the_next(
    loop: asyncio.AbstractEventLoop, in_thread: Callable[..., threading.Thread], first: str
) -> None:
    seen: list[str] = []

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    numbers = [signal.SIGUSR1, signal.SIGUSR2]
    if first != "the loop's":
        numbers.reverse()

    def send_both() -> None:
        running = threading.Event()
        loop.call_soon_threadsafe(running.set)
        assert running.wait(30)
        for number in numbers:  # to this thread, so that no system call of the loop is interrupted
            signal.pthread_kill(threading.get_ident(), number)

    loop.add_signal_handler(signal.SIGUSR1, seen.append, "signal")
    previous = signal.signal(signal.SIGUSR2, interrupt)
    try:
        sender = in_thread(send_both)
        with pytest.raises(KeyboardInterrupt):
            loop.run_forever()
        sender.join()
        for _ in range(5):
            loop.call_soon(loop.stop)
            loop.run_forever()
    finally:
        signal.signal(signal.SIGUSR2, previous)
    assert seen == ["signal"]
    loop.remove_signal_handler(signal.SIGUSR1)


def test_a_python_handler_runs_while_the_loop_is_idle(
    loop: asyncio.AbstractEventLoop, in_thread: Callable[..., threading.Thread]
) -> None:
    handled = threading.Event()
    previous = signal.signal(signal.SIGUSR1, lambda *_: handled.set())

    def send_and_wait() -> None:
        to_main_thread_once_running(loop, signal.SIGUSR1)
        assert handled.wait(30)
        loop.call_soon_threadsafe(loop.stop)

    try:
        in_thread(send_and_wait)
        loop.run_forever()
    finally:
        signal.signal(signal.SIGUSR1, previous)


def test_frequent_signals_lose_no_wake_up(run_script: RunScript) -> None:
    done = run_script(
        """
        import os, signal, threading
        seen = 0

        async def main():
            loop = asyncio.get_running_loop()
            answered = threading.Semaphore(0)

            def handler():
                global seen
                seen += 1
                answered.release()

            loop.add_signal_handler(signal.SIGUSR1, handler)

            def storm():
                for _ in range(500):
                    os.kill(os.getpid(), signal.SIGUSR1)
                    assert answered.acquire(timeout=60)

            await asyncio.to_thread(storm)
            loop.remove_signal_handler(signal.SIGUSR1)

        loop = new_loop()
        loop.run_until_complete(main())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        print(seen)
        """
    )
    assert (done.returncode, done.stdout) == (0, "500\n"), done.stderr


def test_traffic_under_frequent_signals_is_exact(run_script: RunScript) -> None:
    done = run_script(
        """
        import itertools, os, signal, threading
        handled = itertools.count()
        signal.signal(signal.SIGUSR2, lambda *_: next(handled))
        data = bytes(range(256)) * 16384

        async def echo(reader, writer):
            while chunk := await reader.read(65536):
                writer.write(chunk)
                await writer.drain()
            writer.close()

        async def client(address):
            reader, writer = await asyncio.open_connection(*address)
            async def send():
                writer.write(data)
                await writer.drain()
                writer.write_eof()
            _, answer = await asyncio.gather(send(), reader.read(-1))
            writer.close()
            return answer == data

        async def main():
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGUSR1, lambda: next(handled))
            done = threading.Event()

            def storm():
                main_thread = threading.main_thread().ident
                while not done.wait(0.0005):
                    signal.pthread_kill(main_thread, signal.SIGUSR1)
                    signal.pthread_kill(main_thread, signal.SIGUSR2)

            thread = threading.Thread(target=storm)
            thread.start()
            try:
                async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
                    address = server.sockets[0].getsockname()
                    results = await asyncio.gather(*(client(address) for _ in range(3)))
                process = await asyncio.create_subprocess_exec("sh", "-c", "exit 3")
                results.append(await process.wait() == 3)
                await asyncio.sleep(0.01)
            finally:
                done.set()
                thread.join()
            loop.remove_signal_handler(signal.SIGUSR1)
            return all(results)

        loop = new_loop()
        print(loop.run_until_complete(main()), next(handled) > 0)
        loop.close()
        """
    )
    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr
