"""Handles that a program runs itself: the callback may close or drop the loop, or run the handle.

Each program runs in its own interpreter, because a fault in native code would end it.
"""

from __future__ import annotations

import textwrap

import pytest

from .conftest import RunScript, survives

HANDLES = """
import gc, sys, threading

loop = new_loop()
reported = []
# Not a handler: the loop calls a handler in the handle's context, which may be entered already.
loop.call_exception_handler = lambda context: reported.append(context["exception"])
loop.set_debug({debug})
schedule = {schedule}
"""

SCHEDULE = {
    "soon": ("loop.call_soon", False),
    "soon, in debug mode": ("loop.call_soon", True),
    "from any thread": ("loop.call_soon_threadsafe", False),
    "later": ("lambda *what: loop.call_later(60, *what)", False),
}


@pytest.mark.parametrize(("schedule", "debug"), SCHEDULE.values(), ids=SCHEDULE)
@pytest.mark.parametrize(
    "program",
    {
        "closes": """
            handle = schedule(loop.close)
            handle._run()
            assert loop.is_closed()
            repr(handle)
        """,
        "closes with arguments": """
            handle = schedule(lambda loop, one: loop.close(), loop, 1)
            handle._run()
            handle.cancel()
            assert handle.cancelled()
        """,
        "closes and raises": """
            def callback():
                loop.close()
                raise ValueError

            schedule(callback)._run()
            assert [type(each) for each in reported] == [ValueError]
        """,
        "cancels itself and closes": """
            def callback():
                handle.cancel()
                loop.close()
                gc.collect()

            handle = schedule(callback)
            handle._run()
            assert handle.cancelled() and not reported
        """,
        "closes and drops the loop": """
            def callback():
                global loop
                loop.close()
                del loop
                gc.collect()

            handle = schedule(callback)
            handle._run()
            handle.cancel()
        """,
        "runs itself": """
            def callback():
                ran.append(1)
                handle._run()

            ran = []
            handle = schedule(callback)
            handle._run()
            assert len(ran) == 1
            assert [type(each) for each in reported] == [RuntimeError]
            loop.close()
        """,
        "runs twice, closing": """
            handle = schedule(loop.close)
            handle._run()
            if type(loop) is not asyncio.SelectorEventLoop:  # which runs the handle again
                handle._run()
        """,
        "is closed by another thread": """
            entered, leave = threading.Event(), threading.Event()

            def callback():
                entered.set()
                leave.wait()

            handle = schedule(callback)
            thread = threading.Thread(target=handle._run)
            thread.start()
            entered.wait()
            loop.close()
            leave.set()
            thread.join()
            assert not reported
        """,
        "is run by another thread while the loop runs it": """
            entered, leave = threading.Event(), threading.Event()

            def callback():
                loop.call_soon_threadsafe(loop.stop)
                entered.set()
                leave.wait()

            handle = schedule(callback)
            thread = threading.Thread(target=handle._run)
            thread.start()
            entered.wait()
            loop.call_later(0.01, leave.set)
            loop.run_forever()
            leave.set()
            thread.join()
            loop.close()
        """,
        "is cancelled by its finalizers": """
            class Argument:
                def __del__(self):
                    handle.cancel()
                    handle._run()
                    loop.close()

            handle = schedule(lambda argument: None, Argument())
            handle.cancel()
            assert loop.is_closed()
        """,
        "ends the program": """
            handle = schedule(sys.exit, 5)
            try:
                handle._run()
            except SystemExit as exc:
                assert exc.code == 5
            else:
                raise AssertionError
            loop.close()
        """,
    }.items(),
    ids=lambda program: program[0],
)
def test_a_handle_may_be_run_by_the_program(
    run_script: RunScript, schedule: str, debug: bool, program: tuple[str, str]
) -> None:
    survives(
        run_script,
        HANDLES.format(debug=debug, schedule=schedule) + textwrap.dedent(program[1]),
    )
