"""The ``penstock`` command.

Nothing heavy is imported here: ``penstock --help`` answers at once, and every command loads what
it needs when it runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line *argv* (without the program's name) and return its exit code.

    Failures are one sentence on standard error; the codes are those of
    :class:`penstock.cli.errors.ExitCode`. With ``PENSTOCK_TRACEBACK=1`` in the environment the
    traceback follows the sentence. Call it from the main thread: it handles signals while it runs.
    """
    _mend_standard_streams()
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has gone; there is nobody left to tell.
        _silence_stdout()
        code = 5
    except KeyboardInterrupt:
        # Ctrl-C before the command's own handling of signals, while it is being loaded.
        code = 130
    return code


def _run(arguments: list[str]) -> int:
    if arguments[:1] == ["sim"]:
        # The simulator reads its own options, and its own signals end it.
        from penstock.cli.simulator import run_simulator

        return run_simulator(arguments[1:])

    from penstock.cli.errors import CommandError, ExitCode, Interrupted, one_line
    from penstock.cli.interrupts import Interrupts
    from penstock.cli.parser import build_parser

    try:
        options = build_parser().parse_args(arguments)
    except SystemExit as leaving:
        # argparse has printed help, version or usage, and leaves by raising.
        return leaving.code if isinstance(leaving.code, int) else ExitCode.USAGE
    interrupts = Interrupts()
    with interrupts.installed():
        try:
            return int(options.run(options, interrupts))
        except Interrupted as signal:
            return 128 + signal.signum
        except CommandError as error:
            _complain(str(error), error)
            return int(error.code)
        except BrokenPipeError:
            raise
        except Exception as error:
            cause: BaseException = error
            while isinstance(cause, BaseExceptionGroup):
                cause = cause.exceptions[0]
            _complain(
                f"a defect of Penstock: {type(cause).__name__}: {one_line(cause)}; please report "
                "it with the output of the same command under PENSTOCK_TRACEBACK=1",
                error,
            )
            return int(ExitCode.DEFECT)


def _complain(sentence: str, error: BaseException) -> None:
    for line in (sentence, *getattr(error, "__notes__", ())):
        print(f"penstock: {line}", file=sys.stderr)
    sys.stderr.flush()
    if os.environ.get("PENSTOCK_TRACEBACK") == "1":
        import traceback

        traceback.print_exception(error)


def _mend_standard_streams() -> None:
    # Closed by whoever started us (``<&-``, some service managers). Their numbers would go to the
    # next port or file that is opened, which would then get what is printed.
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            nothing = os.open(os.devnull, os.O_RDWR)
            try:
                os.fstat(number)
            except OSError:
                os.dup2(nothing, number)
                os.close(nothing)
                nothing = number
            os.set_inheritable(nothing, True)
            setattr(sys, name, os.fdopen(nothing, mode, closefd=False))


def _silence_stdout() -> None:
    # Without this the interpreter flushes standard output once more at exit and complains again.
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)
