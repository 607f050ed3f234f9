"""Mosquitto, killed 50 times: has its reader each row at least once?

    PYTHONPATH=.:python .venv/bin/python -m tests.python.record.broker_kills --kills 50

The broker keeps its messages (``persistence``, saved every second); the reader has a session that
outlives the kills. Rows that come twice are known by run, device and row number.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import penstock
from penstock.record import MqttSink
from tests.python.integration.mosquitto import mosquitto
from tests.python.record.batches import flow_batch


async def main(kills: int, seed: int, folder: Path) -> dict[str, object]:
    chance = random.Random(seed)
    sent = 0
    began = time.monotonic()
    keeping = (
        "persistence true",
        f"persistence_location {folder}/",
        "autosave_on_changes true",
        "autosave_interval 1",
        "max_queued_messages 0",
    )
    with mosquitto(*keeping) as broker, broker.subscriber("#", lasting=True) as subscriber:
        spool = folder / "spool"
        options: dict[str, Any] = {"lag": 1.5, "timeout": 5.0, "close_timeout": 600.0}
        async with MqttSink(broker.url("lab"), spool=spool, **options) as sink:
            for _ in range(kills):
                for _ in range(chance.randrange(1, 10)):
                    many = chance.randrange(1, 30)
                    await sink.write_batch(flow_batch(many, sent))
                    sent += many
                    await asyncio.sleep(chance.uniform(0.0, 0.3))
                await asyncio.to_thread(broker.kill)
                await asyncio.sleep(chance.uniform(0.0, 0.5))
                await asyncio.to_thread(broker.start)
        await asyncio.to_thread(subscriber.wait_for_rows, range(sent))
        rows = [row for row in subscriber.rows("lab/") if "row" in row]
    found = {(row["run"], row["device"], row["row"]) for row in rows}
    wrong = [row for row in rows if row["Mass_Flow"] != row["row"]]
    return {
        "kills": kills,
        "seed": seed,
        "seconds": round(time.monotonic() - began),
        "rows_recorded": sent,
        "rows_at_the_reader": len(found),
        "messages_at_the_reader": len(rows),
        "doubles_known_by_their_identity": len(rows) - len(found),
        "rows_with_another_value": len(wrong),
        "rows_lost": sent - len(found),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-kills-") as name:
        result = penstock.run(main(options.kills, options.seed, Path(name)))
    text = json.dumps(result, indent=2) + "\n"
    print(text, end="")
    if options.out is not None:
        options.out.write_text(text)
    raise SystemExit(1 if result["rows_lost"] or result["rows_with_another_value"] else 0)
