"""Serial port settings from the options of a command."""

from __future__ import annotations

import argparse

from penstock.cli._errors import CommandError, ExitCode
from penstock.serial import (
    ByteSize,
    FlowControl,
    Parity,
    SerialConfig,
    SerialError,
    StopBits,
)

__all__ = ["config_from", "device_error", "summary_of"]

_ON = {"on": True, "off": False, None: None}


def config_from(options: argparse.Namespace) -> SerialConfig:
    """Return the configuration of ``options``; raise :class:`CommandError` if it is invalid."""
    try:
        return SerialConfig(
            baudrate=options.baud,
            byte_size=ByteSize(options.bits),
            parity=Parity(options.parity),
            stop_bits=StopBits(options.stop),
            flow_control=FlowControl(
                xon_xoff=options.flow == "xonxoff", rts_cts=options.flow == "rtscts"
            ),
            initial_rts=_ON[options.rts],
            initial_dtr=_ON[options.dtr],
        )
    except SerialError as error:
        raise CommandError(str(error), ExitCode.USAGE) from error


def summary_of(config: SerialConfig) -> str:
    """Return the settings in short form, such as ``115200 8N1``."""
    parity = config.parity.value[0].upper()
    return f"{config.baudrate} {config.byte_size.value}{parity}{config.stop_bits.value}"


def device_error(error: SerialError) -> CommandError:
    """Convert a port's error to a :class:`CommandError`; its message already names the port."""
    return CommandError(str(error), ExitCode.DEVICE)
