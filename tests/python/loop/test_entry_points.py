"""penstock.run, new_event_loop, install and EventLoopPolicy."""

from __future__ import annotations

import asyncio
import sys
import warnings
from typing import Any

import pytest

from .conftest import RunScript, penstock_factory


@pytest.fixture
def penstock() -> Any:
    penstock_factory()
    import penstock

    return penstock


@pytest.fixture(params=["penstock"])
def loop_name(penstock: Any) -> str:
    return "penstock"


async def running_loop() -> asyncio.AbstractEventLoop:
    await asyncio.sleep(0)
    return asyncio.get_running_loop()


def test_run_runs_on_the_loop(penstock: Any) -> None:
    loop = penstock.run(running_loop())
    assert isinstance(loop, penstock.Loop)
    assert isinstance(loop, asyncio.AbstractEventLoop)
    assert loop.is_closed()


def test_run_accepts_debug(penstock: Any) -> None:
    async def debugged() -> bool:
        return asyncio.get_running_loop().get_debug()

    assert penstock.run(debugged(), debug=True) is True
    assert penstock.run(debugged(), debug=False) is False
    assert penstock.run(debugged()) is False


def test_run_raises_the_exception_of_its_main(penstock: Any) -> None:
    async def fail() -> None:
        raise LookupError("meant")

    with pytest.raises(LookupError, match="meant"):
        penstock.run(fail())


def test_run_refuses_an_object_that_is_no_coroutine(penstock: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="coroutine"):
        penstock.run(running_loop)


def test_run_inside_a_running_loop_is_refused(penstock: Any) -> None:
    async def nested() -> None:
        inner = running_loop()
        with pytest.raises(RuntimeError, match="running event loop"):
            penstock.run(inner)
        inner.close()

    penstock.run(nested())


def test_run_cancels_the_remaining_tasks(penstock: Any) -> None:
    seen: list[str] = []

    async def background() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def main() -> None:
        main.task = asyncio.create_task(background())  # type: ignore[attr-defined]
        await asyncio.sleep(0)

    penstock.run(main())
    assert seen == ["cancelled"]


def test_new_event_loop_makes_a_new_loop_each_time(penstock: Any) -> None:
    one, two = penstock.new_event_loop(), penstock.new_event_loop()
    assert one is not two
    assert type(one) is penstock.Loop
    one.close()
    two.close()


def test_loop_can_be_subclassed(penstock: Any) -> None:
    class Counting(penstock.Loop):  # type: ignore[misc]
        calls = 0

        def call_soon(self, *arguments: Any, **options: Any) -> asyncio.Handle:
            Counting.calls += 1
            handle: asyncio.Handle = super().call_soon(*arguments, **options)
            return handle

    loop = Counting()
    loop.note = "attributes are free"
    assert loop.run_until_complete(running_loop()) is loop
    assert Counting.calls > 0
    loop.close()


def test_a_runner_accepts_the_factory(penstock: Any) -> None:
    with asyncio.Runner(loop_factory=penstock.new_event_loop) as runner:
        assert isinstance(runner.run(running_loop()), penstock.Loop)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="loop_factory came with Python 3.12")
def test_asyncio_run_accepts_the_factory(penstock: Any) -> None:
    arguments: dict[str, Any] = {"loop_factory": penstock.new_event_loop}
    assert isinstance(asyncio.run(running_loop(), **arguments), penstock.Loop)


def test_install_makes_asyncio_run_use_it(run_script: RunScript) -> None:
    done = run_script(
        """
        import warnings, penstock
        warnings.simplefilter("ignore", DeprecationWarning)
        penstock.install()

        async def main():
            return isinstance(asyncio.get_running_loop(), penstock.Loop)

        print(asyncio.run(main()))
        loop = asyncio.new_event_loop()
        print(isinstance(loop, penstock.Loop))
        loop.close()
        """
    )
    assert (done.returncode, done.stdout) == (0, "True\nTrue\n"), done.stderr


def test_install_names_another_way_on_a_python_without_policies(
    penstock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(asyncio, "set_event_loop_policy")
    with pytest.raises(RuntimeError, match=r"loop_factory=penstock\.new_event_loop"):
        penstock.install()


def test_the_policy_makes_loops(penstock: Any) -> None:
    if not hasattr(penstock, "EventLoopPolicy"):
        pytest.skip("this Python has no policies")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        policy = penstock.EventLoopPolicy()
        loop = policy.new_event_loop()
        assert isinstance(loop, penstock.Loop)
        policy.set_event_loop(loop)
        assert policy.get_event_loop() is loop
        policy.set_event_loop(None)
        with pytest.raises(RuntimeError, match="There is no current event loop"):
            policy.get_event_loop()
    loop.close()


def test_the_package_imports_on_a_python_without_policies(run_script: RunScript) -> None:
    done = run_script(
        """
        for name in ("DefaultEventLoopPolicy", "set_event_loop_policy", "get_event_loop_policy"):
            vars(asyncio).pop(name, None)
        import penstock

        async def main():
            return 7

        print(penstock.run(main()))
        """
    )
    assert (done.returncode, done.stdout) == (0, "7\n"), done.stderr


def test_the_package_has_a_version(penstock: Any) -> None:
    assert penstock.__version__.count(".") >= 2


def test_traffic_loads_no_module_that_the_loop_has_not(run_script: RunScript) -> None:
    # Loading one would stall every task of the loop.
    done = run_script(
        """
        import sys, socket, penstock

        async def main():
            loop = asyncio.get_running_loop()
            left, right = socket.socketpair()
            left.setblocking(False)
            right.setblocking(False)
            before = set(sys.modules)
            received = asyncio.ensure_future(loop.sock_recv(right, 10))
            await asyncio.sleep(0)
            await loop.sock_sendall(left, b"data")
            assert await received == b"data"
            reader, writer = await penstock.open_connection(sock=right)
            answer = asyncio.ensure_future(reader.readline())
            await asyncio.sleep(0)
            left.send(b"line\\n")
            assert await answer == b"line\\n"
            writer.close()
            await writer.wait_closed()
            left.close()
            print(*sorted(name for name in set(sys.modules) - before if "penstock" in name))

        penstock.run(main())
        """
    )
    assert (done.returncode, done.stdout) == (0, "\n"), (done.stdout, done.stderr)


def test_an_idle_loop_makes_no_system_call(run_script: RunScript) -> None:
    done = run_script(
        """
        import threading, time
        from pathlib import Path

        def switches():
            status = Path("/proc/self/task", str(threading.main_thread().native_id), "status")
            lines = status.read_text().splitlines()
            return [line for line in lines if "ctxt_switches" in line]

        def watch(loop, result):
            for _ in range(50):  # until the loop's thread has gone to sleep
                before = switches()
                time.sleep(0.3)
                after = switches()
                if before == after:
                    break
            result.append((before, after))
            loop.call_soon_threadsafe(loop.stop)

        loop = new_loop()
        result = []
        far = loop.call_later(3600, print)
        loop.call_later(0.05, lambda: threading.Timer(0.1, watch, (loop, result)).start())
        loop.run_forever()
        far.cancel()
        loop.close()
        before, after = result[0]
        print(before == after, before, after)
        """
    )
    assert done.returncode == 0, done.stderr
    # A loop that polls sleeps and wakes again, and the kernel counts each switch.
    assert done.stdout.startswith("True"), done.stdout
