"""``serial.tools.list_ports_linux``: the ports, and one port, of this machine."""

from __future__ import annotations

import os

from penstock.serial.compat.tools.list_ports import comports
from penstock.serial.compat.tools.list_ports_common import ListPortInfo
from penstock.serial.discovery import port_info_for

__all__ = ["SysFS", "comports"]


class SysFS(ListPortInfo):
    """What sysfs tells of the port at a path; no more than its name for what is no port."""

    def __init__(self, device: str) -> None:
        super().__init__(device)
        port = port_info_for(device)
        if port is not None:
            self.fill(port)
        if os.path.islink(device):
            self.hwid += f" LINK={os.path.realpath(device)}"
