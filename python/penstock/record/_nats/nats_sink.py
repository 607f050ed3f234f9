"""Recording into a stream of NATS JetStream."""

from __future__ import annotations

import os
import re
from pathlib import Path

from penstock._renamed import renamed
from penstock.record._nats.arrow_messages import ArrowMessages
from penstock.record._nats.jetstream import Login
from penstock.record._nats.nats_transport import NatsTransport
from penstock.record._network.network_sink import NetworkSink, SpooledFile
from penstock.record._network.server import BrokerAddress, trusting
from penstock.record.arrow import load_pyarrow
from penstock.record.sink import LossWindow

__all__ = ["NatsSink", "is_nats", "nats_address"]

_PORTS = {"nats": 4222, "natss": 4222}
_SECRETS = (
    "set NATS_TOKEN, or NATS_USER and NATS_PASSWORD, in the environment, or name a file with "
    "token_file"
)
_PREFIX = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


def is_nats(target: str) -> bool:
    """Whether ``target`` is a URL of a NATS server."""
    return target.partition("://")[0].lower() in _PORTS and "://" in target


def nats_address(url: str) -> BrokerAddress:
    """The server and the prefix of subjects. ValueError."""
    address = BrokerAddress.parse(url, _PORTS, name="penstock", secrets=_SECRETS)
    if not _PREFIX.fullmatch(address.name):
        raise ValueError(
            f"the prefix {address.name!r} is no subject: write letters, digits, - and _, with full "
            "stops between them"
        )
    return address


class NatsSink(NetworkSink):
    """Publishes rows as Arrow record batches to a stream of JetStream.

    A message has rows of one device, as an Arrow IPC stream, and the subject ``PREFIX.RUN.DEVICE``;
    ``RUN`` is a random name. Its identity is in the header Nats-Msg-Id, ``RUN/DEVICE/PART``.

    Every row goes to ``spool`` first, a folder on this machine, and from there to the server, in
    order. Each message comes into the stream once, whatever is killed: it is published on the
    condition that the message before it is the last one of its subject. JetStream acknowledges
    before it syncs, by default up to two minutes before; so the spool keeps what was acknowledged
    in the last ``lag`` seconds, and sends of it what the stream lacks after a lost connection.

    Args:
        url: ``nats://HOST[:4222]/PREFIX``, or ``natss://`` for TLS. The prefix is ``penstock``
            without a path.
        stream: its name; by default the prefix, in which a full stop is written ``_``. It is
            created with the subjects ``PREFIX.>`` where it is not there.
        token_file: a file with the token. Without it the environment is asked: NATS_TOKEN, or
            NATS_USER and NATS_PASSWORD.
        ca_file: certificates (PEM) of an authority of your own.
        spool: the folder; by default ``samples.nats-spool`` in the current one.
        spool_bytes: its largest size. Beyond it, writing raises SinkWriteError.
        lag: seconds for which acknowledged rows are kept; the server's ``sync_interval`` and some.
        timeout: seconds to wait for an answer.
        close_timeout: seconds that ``close`` waits for the last rows to be taken.
        loss_interval: see :class:`~penstock.record.LossWindow`.
        loss_rows: see :class:`~penstock.record.LossWindow`.

    Needs pyarrow (SinkDependencyError at once). ``open`` raises SinkWriteError where the server
    refuses for good: no JetStream, no permission. A server that does not answer is waited for.

    Raises:
        ValueError: the URL is malformed, or holds a password.
    """

    @renamed(loss_seconds="loss_interval")
    def __init__(
        self,
        url: str,
        *,
        stream: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        spool: str | os.PathLike[str] | None = None,
        spool_bytes: int = 16 << 30,
        lag: float = 150.0,
        timeout: float = 10.0,
        close_timeout: float = 10.0,
        loss_interval: float | None = 1.0,
        loss_rows: int | None = None,
    ) -> None:
        load_pyarrow()
        address = nats_address(url)
        stream = address.name.replace(".", "_") if stream is None else stream
        if not _PREFIX.fullmatch(stream) or "." in stream:
            raise ValueError(f"a stream cannot be named {stream!r}: write letters, digits, - and _")
        tls = trusting(ca_file) if address.scheme == "natss" else None
        transport = NatsTransport(
            address,
            tls,
            stream,
            Login.of(token_file),
            lag=lag,
            timeout=timeout,
        )
        file = SpooledFile(
            ArrowMessages(address.name),
            transport,
            Path("samples.nats-spool" if spool is None else spool),
            most_bytes=spool_bytes,
            patience=close_timeout,
        )
        super().__init__(file, LossWindow(loss_interval, loss_rows))
