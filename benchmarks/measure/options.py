"""The options that pages share, and the types of their values."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence

from benchmarks.measure.contenders import LOOPS


def add_loops(parser: argparse.ArgumentParser, further: Sequence[str] = ()) -> None:
    """``--loops``: the loops to compare."""
    loops = [*LOOPS, *further]
    known = ",".join(loops)
    parser.add_argument("--loops", type=names, default=loops, help=f"of {known} or module:factory")


def add_rounds(
    parser: argparse.ArgumentParser, *, rounds: int, seconds: float, warmup: float
) -> None:
    """``--rounds``, ``--seconds``, ``--warmup`` and ``--quick``."""
    parser.add_argument("--rounds", type=int, default=rounds, help=f"rounds of each ({rounds})")
    parser.add_argument(
        "--seconds", type=float, default=seconds, help=f"length of a round ({seconds:g})"
    )
    parser.add_argument(
        "--warmup", type=float, default=warmup, help=f"before each round ({warmup:g})"
    )
    parser.add_argument("--quick", action="store_true", help="at most 2 rounds of 0.1 s")


def add_turns(parser: argparse.ArgumentParser, *, turns: int = 12, rounds: int = 3) -> None:
    """The options of pages that load servers in turns: :func:`add_rounds` and ``--turns``."""
    parser.add_argument(
        "--turns", type=int, default=turns, help=f"turns of each in a round ({turns})"
    )
    add_rounds(parser, rounds=rounds, seconds=0.06, warmup=0.02)


def shorten_if_quick(options: argparse.Namespace) -> None:
    """Let ``--quick`` override the options of :func:`add_rounds`."""
    if options.quick:
        options.rounds = min(options.rounds, 2)
        options.seconds, options.warmup = 0.1, 0.05
        if "turns" in options:
            options.turns = 1


def names(text: str) -> list[str]:
    """A list such as ``a,b``."""
    return [name.strip() for name in text.split(",") if name.strip()]


def add_choices(
    parser: argparse.ArgumentParser,
    option: str,
    kind: str,
    known: Iterable[str],
    *,
    default: Sequence[str] | None = None,
    described: str | None = None,
) -> None:
    """An option that takes a list of known names.

    Args:
        parser: gets the option.
        option: its name.
        kind: what one of the names is, for the error.
        known: the names.
        default: by default all.
        described: its help; by default the names.
    """
    all_names = list(known)
    parser.add_argument(
        option,
        type=choices(kind, all_names),
        default=all_names if default is None else list(default),
        help=f"of {','.join(all_names)}" if described is None else described,
    )


def choices(kind: str, known: Sequence[str]) -> Callable[[str], list[str]]:
    """The type of an option that takes a list of known names."""

    def parse(text: str) -> list[str]:
        chosen = names(text)
        for name in chosen:
            if name not in known:
                raise argparse.ArgumentTypeError(
                    f"unknown {kind} '{name}'; choose from {','.join(known)}"
                )
        return chosen

    return parse


def numbers(text: str) -> list[int]:
    """A list of positive integers such as ``3,32``."""
    try:
        parsed = [int(part) for part in names(text)]
    except ValueError:
        parsed = []
    if not parsed or min(parsed) < 1:
        raise argparse.ArgumentTypeError(f"needs whole numbers such as 3,32, not '{text}'")
    return parsed
