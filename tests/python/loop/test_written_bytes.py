"""What ``write`` has taken is with the kernel when it returns, as on asyncio's own loop."""

from __future__ import annotations

import pytest

from .conftest import RunScript
from .written_bytes import TRANSPORTS


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_what_was_written_arrives_from_a_process_that_ends_or_blocks_in_the_callback(
    run_script: RunScript, transport: str
) -> None:
    done = run_script(
        f"""
        from tests.python.loop.written_bytes import lost
        print(lost(new_loop, {transport!r}))
        """
    )
    assert (done.stdout, done.returncode) == ("{}\n", 0), done.stderr
