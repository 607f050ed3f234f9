"""The ``penstock`` command.

This module imports only light modules, so ``penstock --help`` answers at once. Every command
imports what it needs when it runs.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv`` (without the program's name) and return the exit code.

    A failure prints one sentence on standard error; the codes are those of
    :class:`penstock.cli._errors.ExitCode`. With ``PENSTOCK_TRACEBACK=1`` in the environment the
    traceback follows the sentence. Call it from the main thread: it handles signals while it runs.
    """
    _open_missing_streams()
    for stream in (sys.stdout, sys.stderr):
        # A terminal or file that has no letter for a degree sign shows another, and no error.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe, such as head: as a program that SIGPIPE ends.
        _silence_stdout()
        code = 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        # Ctrl-C during the imports, before the command's own signal handlers are installed.
        code = 130
    return code


def _run(arguments: list[str]) -> int:
    if arguments[:1] == ["sim"]:
        # The simulator parses its own options and handles its own signals.
        from penstock.cli._recording.simulator import run_simulator

        return run_simulator(arguments[1:])

    from penstock.cli._errors import (
        CommandError,
        ExitCode,
        Interrupted,
        first_error,
        one_line,
        print_error,
    )
    from penstock.cli._interrupts import Interrupts
    from penstock.cli._parser import build_parser

    parser = build_parser(arguments)
    if not arguments:
        from penstock.cli._grammar_texts import overview

        print(overview(parser.commands), file=sys.stderr)
        return ExitCode.USAGE
    try:
        options = parser.parse_args(arguments)
    except SystemExit as leaving:
        # argparse has printed help, version or usage and exits by raising.
        return leaving.code if isinstance(leaving.code, int) else ExitCode.USAGE
    interrupts = Interrupts()
    with interrupts.installed():
        try:
            return int(options.run(options, interrupts))
        except Interrupted as signal:
            return 128 + signal.signum
        except CommandError as error:
            print_error(str(error), error)
            return int(error.code)
        except BrokenPipeError:
            raise
        except Exception as error:
            cause = first_error(error)
            print_error(
                f"a defect of Penstock: {type(cause).__name__}: {one_line(cause)}; please report "
                "it with the output of the same command under PENSTOCK_TRACEBACK=1",
                error,
            )
            return int(ExitCode.DEFECT)


def _open_missing_streams() -> None:
    # The parent may have closed them (``<&-``, some service managers). The next port or file that
    # is opened would get descriptor 1, and printed output would be written to it.
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
    # Without this the interpreter flushes standard output again at exit and reports a second error.
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)
