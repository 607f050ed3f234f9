"""Memory of other processes with their children, and the descriptors that many connections need."""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def resident_bytes(pid: int) -> int:
    """Resident memory of a process.

    ``smaps_rollup`` counts the pages. ``statm`` can be wrong by some dozens of pages per core,
    because the kernel adds up its per-core counters only from time to time.

    Raises:
        OSError: if there is no such process.
    """
    found = re.search(r"^Rss:\s+(\d+) kB$", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)
    assert found is not None
    return int(found.group(1)) * 1024


@contextmanager
def descriptors(needed: int) -> Iterator[None]:
    """Let this process, and children started in the block, open ``needed`` descriptors.

    Raises:
        ValueError: if the hard limit is lower.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise ValueError(
            f"{needed} descriptors are needed and {hard} are allowed;"
            " raise the hard limit (ulimit -Hn) or ask for fewer connections"
        )
    if soft == resource.RLIM_INFINITY or soft >= needed:
        yield
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def process_tree(root: int) -> list[int]:
    """A process with all that it has started, and what those have started."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text(errors="replace")
        except OSError:
            continue  # it has ended meanwhile
        parents[int(stat.parent.name)] = int(text.rpartition(") ")[2].split()[1])
    tree = [root]
    for process in tree:
        tree += [child for child, parent in parents.items() if parent == process]
    return tree
