"""What the grammars of the commands share: parsers, the form of help, types of options.

The parser of a command's name builds the chosen command and only names the others. The whole
grammar costs more than many a command: 12 ms for 57 commands with 605 arguments. argparse asks only
the parser of the chosen one; of the others, its help shows a line.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of a text that has some, such as a table; fills one that has none."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" in text.strip():
            return super()._fill_text(text, width, indent)
        return argparse.HelpFormatter._fill_text(self, text, width, indent)


class CommandParser(argparse.ArgumentParser):
    """A parser whose options must be spelled out, with that help; so are its subparsers."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": HelpFormatter, "allow_abbrev": False, **options})


if TYPE_CHECKING:
    _Action = argparse._SubParsersAction[argparse.ArgumentParser]
else:
    _Action = argparse._SubParsersAction  # generic in its stubs only


class NamingParser(CommandParser):
    """A parser whose commands are built as ``words`` choose them; its errors name the nearest one.

    Attributes:
        commands: what argparse's ``add_subparsers`` returned; None for a parser without commands.
        words: the arguments that it will be given; None if all commands are to be built.
        presets: returns the options that need not be given, as of the environment; or None.
    """

    commands: Any = None
    words: Sequence[str] | None = None
    presets: Callable[[argparse.ArgumentParser], argparse.Namespace] | None = None

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.register("action", "parsers", _Commands)

    def add_subparsers(self, **options: Any) -> Any:
        self.commands = super().add_subparsers(**options)
        self.commands.words = self.words
        return self.commands

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        first = next(iter(args or ()), "")
        if self.commands is not None and first not in (known := self.commands.choices):
            from difflib import get_close_matches

            near = get_close_matches(first, known, n=1)
            if near:
                what = self.commands.metavar
                self.error(f"argument {what}: invalid choice: {first!r}; did you mean {near[0]}?")
        if namespace is None and self.presets is not None:
            namespace = self.presets(self)
        options, unknown = super().parse_known_args(args, namespace)
        unknown = self._take_late_words(options, unknown)
        if unknown:
            # By the parser of the command, so the usage that is printed is the command's.
            self.error(f"unrecognized arguments: {' '.join(map(_without_secret, unknown))}")
        return options, unknown

    def _take_late_words(self, options: argparse.Namespace, unknown: list[str]) -> list[str]:
        """Add words behind an option to the list that they continue; return those that remain.

        argparse closes a list of words, such as FILE..., at the first option.
        """
        lists = [a for a in self._actions if not a.option_strings and a.nargs in ("*", "+")]
        if not lists or any(word.startswith("-") for word in unknown):
            return unknown
        name = lists[-1].dest
        try:
            late = [self._get_value(lists[-1], word) for word in unknown]
        except argparse.ArgumentError as error:
            self.error(str(error))
        setattr(options, name, [*(getattr(options, name) or ()), *late])
        return []


def _without_secret(word: str) -> str:
    """A word as an error may show it: a URL may hold a password."""
    scheme, between, _ = word.partition("://")
    return f"{scheme}{between}..." if between else word


class _Commands(_Action):
    """The commands of a parser, of which only the one that ``words`` choose is built."""

    words: Sequence[str] | None = None

    def add_parser(self, name: str, **options: Any) -> Any:
        if self.words is None:
            return super().add_parser(name, **options)
        # A parser of commands has no option that takes a value, so the first word is the command.
        at = next((i for i, word in enumerate(self.words) if word[:1] != "-"), len(self.words))
        if self.words[at : at + 1] == [name]:
            parser: Any = super().add_parser(name, **options)
            parser.words = self.words[at + 1 :]
            return parser
        self._choices_actions.append(self._ChoicesPseudoAction(name, (), options["help"]))
        self._name_parser_map[name] = _NotBuilt()  # type: ignore[assignment]
        return self._name_parser_map[name]


class _NotBuilt:
    """Stands for the parser of a command that was not chosen, and for all that is added to it."""

    def __getattr__(self, name: str) -> Callable[..., _NotBuilt]:
        return self._ignore

    def _ignore(self, *args: object, **options: object) -> _NotBuilt:
        return self


# Types of arguments.


def metrics_address(text: str) -> str:
    """Check an address of ``--metrics``; the server that it needs is not imported for help."""
    from penstock.cli._metrics_endpoint import check_address

    try:
        check_address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def recording_address(text: str) -> str:
    """Check what names a recording: a path, or a URI of PostgreSQL, which holds no password."""
    return _address(text, "name a file, a folder, or a postgresql:// URI")


def archive_address(text: str) -> str:
    """Check what names a recording or an archive, which may be in a bucket too."""
    return _address(text, "name a file, a folder, s3://BUCKET/PREFIX, or a postgresql:// URI", "s3")


def postgres_dsn(text: str) -> str:
    """Check a connection string of libpq: a URI, or words with values; it holds no password."""
    from penstock.record.postgres_server import check_dsn

    try:
        check_dsn(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def _address(text: str, meant: str, *others: str) -> str:
    """Refuse a URL of another kind too: as a path, it would be printed with its password."""
    if "://" in text:  # what decides is imported for such a name alone
        from penstock.record.addresses import refuse_url, scheme_of
        from penstock.record.postgres_server import check_uri, is_postgres

        try:
            if is_postgres(text):
                check_uri(text)
            elif scheme_of(text) not in others:
                refuse_url(text, meant)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error
    return text
