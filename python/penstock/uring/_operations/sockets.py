"""Operations on sockets."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.uring._native import Ring
from penstock.uring._operations.files import slot_number
from penstock.uring.constants import OPCODE

if TYPE_CHECKING:
    import os
    from typing import Unpack

    from penstock._uring import Fd, Options
    from penstock.uring._operations.files import DirectSlot

    Address = tuple[str, int] | tuple[str, int, int, int] | str | bytes | os.PathLike[Any]

ACCEPT_MULTISHOT = 1
LONGEST_UNIX_PATH = 108
_MESSAGE_HEAD = struct.Struct("=IIII")


def encode_address(address: Address) -> bytes:
    """Return a ``sockaddr``: of a path for Unix sockets, of ``(host, port)`` for IP.

    Raises:
        ValueError: if the host is a name: resolving it would block.
    """
    if not isinstance(address, tuple):
        import os

        path = os.fsencode(address)
        if len(path) >= LONGEST_UNIX_PATH:
            raise ValueError(f"the path {address!r} is too long for a Unix socket (107 bytes)")
        # A name that begins with a null byte is an abstract one and does not end in one.
        return struct.pack("=H", socket.AF_UNIX) + path + (b"" if path[:1] == b"\0" else b"\0")
    host, port = address[:2]
    if not 0 <= port <= 0xFFFF:
        raise ValueError(f"port is {port}; it must be from 0 to 65535")
    try:
        packed = socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
    except OSError:
        raise ValueError(f"{host!r} is not an IP address; resolve the name first") from None
    if len(packed) == 4:
        return struct.pack("=H", socket.AF_INET) + port.to_bytes(2, "big") + packed + bytes(8)
    flow, scope = (address[2], address[3]) if len(address) == 4 else (0, 0)
    return (
        struct.pack("=H", socket.AF_INET6)
        + port.to_bytes(2, "big")
        + flow.to_bytes(4, "big")
        + packed
        + struct.pack("=I", scope)
    )


@dataclass(frozen=True)
class ReceivedMessage:
    """A message that a multishot recvmsg has written into a buffer.

    Attributes:
        data: what was sent, cut to the size of the buffer.
        address: the sender's sockaddr, cut to the ``address_size`` asked for.
        control: control data, cut to the ``control_size`` asked for.
        flags: ``MSG_*`` of recvmsg(2): ``MSG_TRUNC`` and ``MSG_CTRUNC`` mean a cut.
    """

    data: bytes
    address: bytes
    control: bytes
    flags: int

    @classmethod
    def parse(cls, found: bytes, address_size: int = 0, control_size: int = 0) -> ReceivedMessage:
        """Parse a buffer's bytes, with the sizes that the operation was given.

        Raises:
            ValueError: if the buffer is too short for those.
        """
        start = _MESSAGE_HEAD.size + address_size + control_size
        if len(found) < start:
            raise ValueError(
                f"a message of {len(found)} bytes is shorter than its head of {start} bytes"
            )
        address_length, control_length, _, flags = _MESSAGE_HEAD.unpack_from(found)
        control = _MESSAGE_HEAD.size + address_size
        return cls(
            data=found[start:],
            address=found[_MESSAGE_HEAD.size :][: min(address_length, address_size)],
            control=found[control:][: min(control_length, control_size)],
            flags=flags,
        )


class SocketOperations(Ring):
    """What a ring prepares for sockets, except receiving and sending.

    Each method returns the operation's ``user_data`` and takes the options that :class:`UringCtx`
    describes.
    """

    def prep_socket(
        self,
        family: int = socket.AF_INET,
        kind: int = socket.SOCK_STREAM,
        protocol: int = 0,
        *,
        direct: DirectSlot = None,
        **options: Unpack[Options],
    ) -> Any:
        """Prepare socket(2); the result is a descriptor. ``direct`` is as with ``prep_openat``."""
        index = slot_number(direct)
        kind = kind if index else kind | socket.SOCK_CLOEXEC
        return self._prep(
            OPCODE["socket"],
            family,
            0,
            protocol,
            offset=kind,
            file_index=index,
            yields_fd=not index,
            **options,
        )

    def prep_accept(
        self,
        fd: Fd,
        flags: int = 0,
        *,
        direct: DirectSlot = None,
        **options: Unpack[Options],
    ) -> Any:
        """Prepare accept4(2); the result is a descriptor, closed in child programs."""
        return self._accept(fd, flags, direct, 0, options)

    def prep_accept_multishot(
        self, fd: Fd, flags: int = 0, *, direct: bool = False, **options: Unpack[Options]
    ) -> Any:
        """Prepare accepting repeatedly, until a completion without ``CQE_F_MORE``.

        With ``direct`` the connections become registered files in free slots.
        """
        return self._accept(fd, flags, "auto" if direct else None, ACCEPT_MULTISHOT, options)

    def _accept(self, fd: Fd, flags: int, direct: DirectSlot, ioprio: int, options: Options) -> Any:
        index = slot_number(direct)
        return self._prep(
            OPCODE["accept"],
            fd,
            flags=flags if index else flags | socket.SOCK_CLOEXEC,
            ioprio=ioprio,
            file_index=index,
            yields_fd=not index,
            **options,
        )

    def prep_connect(self, fd: Fd, address: Address, **options: Unpack[Options]) -> Any:
        """Prepare connect(2), to ``(host, port)`` with a numeric host or to a Unix socket."""
        encoded = encode_address(address)
        return self._prep(OPCODE["connect"], fd, encoded, 0, offset=len(encoded), **options)

    def prep_bind(self, fd: Fd, address: Address, **options: Unpack[Options]) -> Any:
        """Prepare bind(2). Linux 6.11."""
        encoded = encode_address(address)
        return self._prep(OPCODE["bind"], fd, encoded, 0, offset=len(encoded), **options)

    def prep_listen(self, fd: Fd, backlog: int = 128, **options: Unpack[Options]) -> Any:
        """Prepare listen(2). Linux 6.11."""
        return self._prep(OPCODE["listen"], fd, 0, backlog, **options)

    def prep_shutdown(self, fd: Fd, how: int = socket.SHUT_RDWR, **options: Unpack[Options]) -> Any:
        """Prepare shutdown(2)."""
        return self._prep(OPCODE["shutdown"], fd, 0, how, **options)
