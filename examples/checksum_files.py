"""Print the CRC of files, read with O_DIRECT and many blocks in flight.

    python examples/checksum_files.py FILE...

Without the page cache, a device reaches its full speed only while further requests are queued.
The last, incomplete block of a file is read without O_DIRECT, which requires whole blocks.
"""

from __future__ import annotations

import os
import sys
import zlib

from penstock.uring import BufferPool, UringCtx, UringError, check_result

BLOCK = 256 * 1024
DEPTH = 16


def checksum(path: str) -> int:
    """The CRC-32 of a file."""
    crc = 0
    fd = os.open(path, os.O_RDONLY)
    try:
        blocks = os.fstat(fd).st_size // BLOCK
        if blocks:
            crc = checksum_blocks(path, blocks)
        while rest := os.pread(fd, BLOCK, blocks * BLOCK):
            crc = zlib.crc32(rest, crc)
            blocks += 1
    finally:
        os.close(fd)
    return crc


def checksum_blocks(path: str, blocks: int) -> int:
    """The CRC-32 of a file's whole blocks."""
    crc = 0
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        with BufferPool(DEPTH, BLOCK) as pool, UringCtx(DEPTH) as ctx:
            started = 0
            ready = {}
            for number in range(blocks):
                # Blocks complete in any order. The CRC needs them in the file's order.
                while started < min(number + DEPTH, blocks):
                    ctx.prep_read(fd, pool[started % DEPTH], started * BLOCK, started)
                    started += 1
                while number not in ready:
                    for block, count, _ in ctx.wait_completions():
                        if check_result(count, path) != BLOCK:
                            raise UringError(5, "the file was truncated while it was read", path)
                        ready[block] = pool[block % DEPTH]
                crc = zlib.crc32(ready.pop(number), crc)
    finally:
        os.close(fd)
    return crc


def main() -> int:
    """Print a line for each file; the exit code is 1 if a file could not be read."""
    failed = False
    for path in sys.argv[1:]:
        try:
            print(f"{checksum(path):08x}  {path}")
        except OSError as error:
            print(f"checksum_files: {error}", file=sys.stderr)
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
