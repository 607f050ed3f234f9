"""A client whose units can prove that they have nothing left to answer."""

from __future__ import annotations

from penstock.alicat import AlicatProtocolClient, ByteStreamTransport
from penstock.alicat._instrument.data_frame import parse_data_frame_format

from .captures import FORMAT_10V20, FRAME_10V20, VERSION_10V20
from .scripted_bus import ScriptedBus

__all__ = ["TIMEOUT", "client_on", "poll"]

# Long enough for a loaded machine to deliver what is there, short enough to wait for nothing.
TIMEOUT = 0.1


def client_on(
    bus: ScriptedBus, *, proven: str = "A", window: float = 0.2, timeout: float = TIMEOUT
) -> AlicatProtocolClient:
    transport = ByteStreamTransport(bus, label="wire", baudrate=115200)
    client = AlicatProtocolClient(transport, default_timeout=timeout, late_reply_window=window)
    for unit_id in proven:
        line = unit_id.encode() + VERSION_10V20[1:]
        client.register_proof(unit_id, f"{unit_id}VE\r".encode(), line)
    return client


async def poll(client: AlicatProtocolClient, unit_id: str = "A") -> float:
    sample = unit_id.encode() + FRAME_10V20[1:]
    decoder = parse_data_frame_format(FORMAT_10V20).decoder(unit_id, sample)
    exchange = await client.exchange(f"{unit_id}\r".encode(), decoder)
    assert exchange.requested_monotonic_ns <= exchange.received_monotonic_ns
    assert exchange.value.unit_id == unit_id
    value = exchange.value.values["Mass_Flow"]
    assert isinstance(value, float)
    return value
