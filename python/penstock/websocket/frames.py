"""Opcodes and close codes of frames (RFC 6455, 5.2 and 7.4)."""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass

from penstock.websocket.exceptions import ProtocolError
from penstock.websocket.typing import DataLike

__all__ = ["Close", "CloseCode", "Opcode"]


class Opcode(enum.IntEnum):
    """The kind of a frame."""

    CONT, TEXT, BINARY = 0x00, 0x01, 0x02
    CLOSE, PING, PONG = 0x08, 0x09, 0x0A


class CloseCode(enum.IntEnum):
    """The registered codes of close frames. 1005, 1006 and 1015 are never sent."""

    NORMAL_CLOSURE = 1000
    GOING_AWAY = 1001
    PROTOCOL_ERROR = 1002
    UNSUPPORTED_DATA = 1003
    NO_STATUS_RCVD = 1005
    ABNORMAL_CLOSURE = 1006
    INVALID_DATA = 1007
    POLICY_VIOLATION = 1008
    MESSAGE_TOO_BIG = 1009
    MANDATORY_EXTENSION = 1010
    INTERNAL_ERROR = 1011
    SERVICE_RESTART = 1012
    TRY_AGAIN_LATER = 1013
    BAD_GATEWAY = 1014
    TLS_HANDSHAKE = 1015


_EXPLANATIONS = {
    1000: "OK",
    1001: "going away",
    1002: "protocol error",
    1003: "unsupported data",
    1005: "no status received [internal]",
    1006: "abnormal closure [internal]",
    1007: "invalid frame payload data",
    1008: "policy violation",
    1009: "message too big",
    1010: "mandatory extension",
    1011: "internal error",
    1012: "service restart",
    1013: "try again later",
    1014: "bad gateway",
    1015: "TLS handshake failure [internal]",
}


@dataclass(frozen=True)
class Close:
    """Code and reason of a close frame. Code 1005 is a frame without a code (RFC 6455, 7.1.5)."""

    code: int
    reason: str

    def __str__(self) -> str:
        if 3000 <= self.code < 4000:
            explanation = "registered"
        elif 4000 <= self.code < 5000:
            explanation = "private use"
        else:
            explanation = _EXPLANATIONS.get(self.code, "unknown")
        text = f"{int(self.code)} ({explanation})"
        return f"{text} {self.reason}" if self.reason else text

    def serialize(self) -> bytes:
        """Return the payload of the close frame.

        Raises:
            ProtocolError: If the code may not be sent, or the reason is too long.
        """
        if self.code == CloseCode.NO_STATUS_RCVD:
            return b""
        code = self.code
        if not (1000 <= code <= 1003 or 1007 <= code <= 1014 or 3000 <= code < 5000):
            raise ProtocolError(f"close code {code} may not be sent; use 1000, or 3000 to 4999")
        reason = self.reason.encode()
        if len(reason) > 123:
            raise ProtocolError(f"the reason has {len(reason)} bytes in UTF-8; at most 123 fit")
        return struct.pack("!H", code) + reason


def sendable_close(code: int, reason: str) -> Close:
    """Return the close frame that a program asks for.

    Raises:
        ProtocolError: If the code or the reason cannot be sent.
    """
    if code == CloseCode.NO_STATUS_RCVD:
        raise ProtocolError("close code 1005 may not be sent; use 1000")
    close = Close(code, reason)
    close.serialize()
    return close


def control_payload(data: DataLike) -> bytes:
    """Return the payload of a ping or pong (RFC 6455, 5.5).

    Raises:
        ProtocolError: If it is too long.
    """
    if not isinstance(data, DataLike):
        raise TypeError(f"a payload must be str or bytes-like, not {type(data).__name__}")
    payload = data.encode() if isinstance(data, str) else bytes(data)
    if len(payload) > 125:
        raise ProtocolError(
            f"the payload of a ping or pong has {len(payload)} bytes; at most 125 fit"
        )
    return payload
