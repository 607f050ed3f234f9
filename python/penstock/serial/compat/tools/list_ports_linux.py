"""``serial.tools.list_ports_linux``: the ports, and one port, of this machine."""

from __future__ import annotations

import os

from penstock.serial._sysfs import port_info_for
from penstock.serial.compat.tools.list_ports import comports
from penstock.serial.compat.tools.list_ports_common import ListPortInfo

__all__ = ["SysFS", "comports"]


class SysFS(ListPortInfo):
    """A port described from sysfs; only its name if the path is not a port."""

    def __init__(self, device: str) -> None:
        super().__init__(device)
        port = port_info_for(device)
        if port is not None:
            self.fill(port)
        if os.path.islink(device):
            self.hwid: str = f"{self.hwid} LINK={os.path.realpath(device)}"
