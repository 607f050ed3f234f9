"""The keys of ``penstock term``: each maps to bytes to send or to an action."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

__all__ = ["HELP", "Action", "KeyReader", "LineEnd"]

_EXIT = 0x1D  # Ctrl-]
_MENU = 0x14  # Ctrl-T
_ENTER = (0x0D, 0x0A)


class LineEnd(Enum):
    """The bytes that a line end sends."""

    CR = b"\r"
    LF = b"\n"
    CRLF = b"\r\n"
    RAW = b""
    """Typed bytes unchanged."""

    def following(self) -> LineEnd:
        """Return the next member, or the first after the last."""
        members = list(LineEnd)
        return members[(members.index(self) + 1) % len(members)]


class Action(Enum):
    """A key's effect other than bytes to send."""

    EXIT = "leave"
    HELP = "show this list"
    INFO = "show the settings and the lines"
    TOGGLE_DTR = "switch DTR"
    TOGGLE_RTS = "switch RTS"
    BREAK = "send a break"
    TOGGLE_HEX = "show received bytes in hexadecimal or as text"
    TOGGLE_ECHO = "switch the local echo"
    NEXT_LINE_END = "change what the Enter key sends"
    TOGGLE_LOG = "stop or resume the log"
    UNKNOWN = "a key without a function"


# Same keys as pyserial's miniterm where it has the action, because users know them.
_MENU_KEYS = {
    ord("q"): Action.EXIT,
    0x08: Action.HELP,  # Ctrl-H
    ord("h"): Action.HELP,
    ord("?"): Action.HELP,
    0x09: Action.INFO,  # Ctrl-I
    ord("i"): Action.INFO,
    0x04: Action.TOGGLE_DTR,  # Ctrl-D
    ord("d"): Action.TOGGLE_DTR,
    0x12: Action.TOGGLE_RTS,  # Ctrl-R
    ord("r"): Action.TOGGLE_RTS,
    0x02: Action.BREAK,  # Ctrl-B
    ord("b"): Action.BREAK,
    ord("x"): Action.TOGGLE_HEX,
    0x18: Action.TOGGLE_HEX,  # Ctrl-X
    0x05: Action.TOGGLE_ECHO,  # Ctrl-E
    ord("e"): Action.TOGGLE_ECHO,
    0x0C: Action.NEXT_LINE_END,  # Ctrl-L
    ord("l"): Action.NEXT_LINE_END,
    ord("s"): Action.TOGGLE_LOG,
}

HELP = """\
Ctrl-]         leave
Ctrl-T, then   h  this list            i  settings and lines
               d  switch DTR           r  switch RTS
               b  send a break         x  hexadecimal or text
               l  next line ending     e  local echo on or off
               s  log on or off        q  leave
               Ctrl-T or Ctrl-]        send that byte
"""


class KeyReader:
    """Parses typed bytes, in pieces of any size, into bytes to send and actions."""

    def __init__(self, line_end: LineEnd) -> None:
        self.line_end = line_end
        self._in_menu = False

    def feed(self, typed: bytes) -> Iterator[bytes | Action]:
        """Yield the bytes to send, in as few pieces as possible, and the actions."""
        to_send = bytearray()
        for key in typed:
            action: Action | None = None
            if self._in_menu:
                self._in_menu = False
                if key in (_MENU, _EXIT):
                    to_send.append(key)
                else:
                    action = _MENU_KEYS.get(key, Action.UNKNOWN)
            elif key == _MENU:
                self._in_menu = True
            elif key == _EXIT:
                action = Action.EXIT
            elif key in _ENTER and self.line_end is not LineEnd.RAW:
                to_send += self.line_end.value
            else:
                to_send.append(key)
            if action is not None:
                if to_send:
                    yield bytes(to_send)
                    to_send.clear()
                yield action
        if to_send:
            yield bytes(to_send)
