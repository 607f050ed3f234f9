"""``serial.tools.list_ports``: which ports there are, in pyserial's form."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator

from penstock.serial._sysfs import native_ports
from penstock.serial.compat.tools.list_ports_common import ListPortInfo, list_links

__all__ = ["ListPortInfo", "comports", "grep", "main"]


def comports(include_links: bool = False) -> list[ListPortInfo]:
    """Return the ports that have hardware behind them; with their links in /dev if asked."""
    ports = native_ports()
    found = [ListPortInfo.of(port) for port in ports]
    if include_links:
        by_node = {os.path.realpath(port.device): port for port in ports}
        found += [
            ListPortInfo.of(by_node[os.path.realpath(link)], link) for link in list_links(by_node)
        ]
    return found


def grep(regexp: str, include_links: bool = False) -> Iterator[ListPortInfo]:
    """Yield the ports whose device, description or hardware id matches, whatever the case."""
    pattern = re.compile(regexp, re.IGNORECASE)
    for info in comports(include_links):
        if any(map(pattern.search, (info.device, info.description, info.hwid))):
            yield info


def main() -> None:
    """Print the ports; ``penstock ports`` prints more."""
    found = list(grep(sys.argv[1]) if len(sys.argv) > 1 else comports())
    for info in sorted(found):
        print(f"{info.device:20}")
    print(f"{len(found) or 'no'} ports found", file=sys.stderr)


if __name__ == "__main__":
    main()
