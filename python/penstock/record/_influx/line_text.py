r"""Names and texts in the line protocol of InfluxDB.

https://docs.influxdata.com/influxdb/v1.6/write_protocols/line_protocol_reference/

Four things cannot be written: a line feed in a name, a backslash at the end of a name or before one
of its commas, equals signs and blanks, a character of number 0, and a field without a name. They
are written as the two characters ``\n``, as ``\`` and a full stop, as ``\0``, and as ``field``. A
line feed in a text is possible, but then the lines of a request cannot be told apart.
"""

from __future__ import annotations

import re

__all__ = ["field_label", "line_without_field", "quoted_text", "series_head"]

_CONTROLS = {"\n": "\\n", "\r": "\\r", "\0": "\\0"}
_BEFORE_SPECIAL = re.compile(r"\\(?=[,= ]|\Z)")
# In a name a backslash before another character is itself.
_FIELD = re.compile(rb'((?:\\[,= ]|[^,= ])+)=("(?:\\.|[^"\\])*"|[^, ]*)', re.DOTALL)
_HEAD = re.compile(rb"(?:\\[,= ]|[^ ])+", re.DOTALL)


def _name(text: str, special: str) -> str:
    for control, written in _CONTROLS.items():
        text = text.replace(control, written)
    text = _BEFORE_SPECIAL.sub(r"\\.", text)
    for character in special:
        text = text.replace(character, f"\\{character}")
    return text


def series_head(measurement: str, device: str) -> bytes:
    """What stands before the fields of a line; a device without a name is no tag."""
    head = _name(measurement, ", ")
    return (f"{head},device={_name(device, ',= ')}" if device else head).encode()


def field_label(name: str) -> bytes:
    """What stands before a field's value. InfluxDB refuses a field ``time``."""
    if name == "time":
        name = "field_time"
    return (_name(name or "field", ",= ") + "=").encode()


def quoted_text(text: str) -> str:
    """A text as a field's value; empty for an empty one, which is left out."""
    if not text:
        return ""
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    for control, written in _CONTROLS.items():
        text = text.replace(control, written)
    return f'"{text}"'


def line_without_field(line: bytes, measurement: str, field: str) -> bytes | None:
    """A line of ``measurement`` without a field; empty if it has no other; None if it has it not.

    A line as this module writes it.
    """
    head = _HEAD.match(line)
    if head is None:
        return None
    own = _name(measurement, ", ").encode()
    if head[0] != own and not head[0].startswith(own + b","):
        return None
    wanted = field_label(field)[:-1]
    kept, hit, at = [], False, head.end()
    while line[at : at + 1] == (b"," if at > head.end() else b" "):
        found = _FIELD.match(line, at + 1)
        if found is None:
            return None
        if found[1] == wanted:
            hit = True
        else:
            kept.append(found[0])
        at = found.end()
    if not hit:
        return None
    return head[0] + b" " + b",".join(kept) + line[at:] if kept else b""
