"""The spool and its sender, with another side that is scripted or fails at random."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import shutil
import time
from itertools import pairwise
from pathlib import Path

import pytest

import penstock
from penstock.files import SegmentedLog
from penstock.record import SampleBatch, SinkWriteError
from penstock.record._network import spool_sender
from penstock.record._network.network_sink import SpooledFile
from penstock.record._network.protocol import Away, Misconfigured
from penstock.record._network.spool_sender import SentMark, SpoolSender
from tests.python.open_descriptors import open_descriptors


class OtherSide:
    """Takes payloads, or does what the next entry of ``script`` says."""

    def __init__(self, *script: str, lag: float = 0.0, name: str = "test://") -> None:
        self.name = name
        self.lag, self.grace = lag, 0.0
        self.taken: list[bytes] = []
        self.script = list(script)
        self.tried = asyncio.Event()
        self.took = asyncio.Event()
        self.closed = False
        self.checks = 0

    def __str__(self) -> str:
        return self.name

    async def check(self) -> None:
        self.checks += 1
        if self.script and self.script[0] == "refuse":
            raise Misconfigured("no such place")

    async def probe(self) -> None:
        await self.check()

    async def send(self, payload: bytes) -> int:
        what = self.script.pop(0) if self.script else "take"
        self.tried.set()
        if what == "hang":
            await asyncio.sleep(3600)
        if what in ("take", "lost answer", "bad row"):
            self.taken.append(payload)
            self.took.set()
        if what in ("lost answer", "away"):
            raise Away(what)
        if what == "taken over":
            raise Misconfigured(what, lost_at=time.monotonic() - 1)
        if what == "busy":
            raise Away(what, retry_after=120.0)
        if what == "break":
            raise RuntimeError("a defect")
        if what == "full":
            raise OSError(28, "No space left on device")
        return what == "bad row"

    async def close(self) -> None:
        self.closed = True


def payloads(*numbers: int) -> list[tuple[int, bytes]]:
    return [(1, b"%d" % number) for number in numbers]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_sender, "_FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(spool_sender, "_LONGEST_PAUSE_S", 0.002)


def sender(other: OtherSide, folder: Path, most: int = 1 << 30) -> SpoolSender:
    return SpoolSender(other, b"TEST", folder, most)


def test_payloads_are_sent_in_order_and_the_folder_goes(tmp_path: Path) -> None:
    async def main() -> None:
        other = OtherSide()
        spool = sender(other, tmp_path / "spool")
        await spool.open()
        await spool.append(payloads(0, 1))
        await spool.append(payloads(2))
        await spool.finish(5)
        assert other.taken == [b"0", b"1", b"2"]
        assert other.closed
        assert spool.rows_waiting == 0

    penstock.run(main())
    assert not (tmp_path / "spool").exists()


def test_payloads_larger_than_a_batch_of_the_log_go_in_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.files._log.append_log.MAX_BATCH", 1000)
    monkeypatch.setattr(spool_sender, "_BATCH_BYTES", 500)
    other = OtherSide()

    async def main() -> None:
        spool = sender(other, tmp_path / "spool")
        await spool.open()
        await spool.append([(1, bytes(300)) for _ in range(5)])
        with pytest.raises(SinkWriteError, match="cannot be written"):
            await spool.append([(1, bytes(2000))])
        await spool.finish(30)

    asyncio.run(main())
    assert other.taken == [bytes(300)] * 5


def test_what_is_not_taken_is_sent_by_the_next_one_first(tmp_path: Path) -> None:
    async def main() -> None:
        spool = sender(OtherSide("take", *["away"] * 1000), tmp_path / "spool")
        await spool.open()
        await spool.append(payloads(0, 1, 2))
        with pytest.raises(SinkWriteError, match=r"\(away\): they wait in"):
            await spool.finish(5)
        other = OtherSide()
        again = sender(other, tmp_path / "spool")
        await again.open()
        await again.append(payloads(3))
        await again.finish(5)
        assert other.taken == [b"1", b"2", b"3"]

    penstock.run(main())


def test_finish_tries_once_more_in_place_of_a_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_sender, "_FIRST_PAUSE_S", 3600)

    async def main() -> None:
        other = OtherSide("away")
        spool = sender(other, tmp_path / "spool")
        await spool.open()
        await spool.append(payloads(0, 1))
        await other.tried.wait()
        await spool.finish(30)
        assert other.taken == [b"0", b"1"]

    penstock.run(main())


def test_finish_gives_up_a_side_that_hangs(tmp_path: Path) -> None:
    async def main() -> None:
        other = OtherSide("hang")
        spool = sender(other, tmp_path / "spool")
        await spool.open()
        await spool.append(payloads(0))
        await other.tried.wait()
        with pytest.raises(SinkWriteError, match="it was too slow"):
            await spool.finish(0.01)

    penstock.run(main())
    assert (tmp_path / "spool" / "sent").exists()


def test_a_refusal_at_open_leaves_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(SinkWriteError, match="cannot write to test://: no such place"):
            await sender(OtherSide("refuse"), tmp_path / "spool").open()

    penstock.run(main())
    assert not (tmp_path / "spool").exists()


def test_a_full_spool_refuses_more(tmp_path: Path) -> None:
    async def main() -> None:
        other = OtherSide(*["away"] * 1000)
        spool = sender(other, tmp_path / "spool", 100)
        await spool.open()
        await spool.append([(1, b"x" * 60)])
        await other.tried.wait()
        with pytest.raises(SinkWriteError, match=r"is full with .* bytes, because test://"):
            await spool.append([(1, b"x" * 60)])
        other.script.clear()
        await spool.finish(5)
        assert other.taken == [b"x" * 60]

    penstock.run(main())


def test_what_may_be_lost_is_sent_again_after_a_lost_connection(tmp_path: Path) -> None:
    async def main() -> None:
        other = OtherSide("take", "take", "away", lag=3600)
        spool = sender(other, tmp_path / "spool")
        await spool.open()
        await spool.append(payloads(0, 1, 2, 3))
        await spool.finish(1)
        assert other.taken == [b"0", b"1", b"0", b"1", b"2", b"3"]
        assert spool.rows_waiting == 0

    penstock.run(main())
    assert not (tmp_path / "spool").exists()


class Dying(OtherSide):
    """Is killed once it has taken all, in the seconds for which the end of a run waits."""

    def __init__(self, *script: str, then: str = "take", error: type[Exception] = Away) -> None:
        super().__init__(*script, lag=3600)
        self.grace = 0.01
        self.then = then
        self.error = error

    async def check(self) -> None:
        await super().check()
        if self.checks == 2:
            self.script = [self.then] * 1000
            if self.error is Away:
                raise Away("killed", lost_at=time.monotonic())
            raise self.error("an answer that nobody expects")


@pytest.mark.parametrize("error", [Away, KeyError])
def test_what_is_lost_while_the_end_waits_is_sent_again(
    tmp_path: Path, error: type[Exception]
) -> None:
    async def main() -> None:
        other = Dying(error=error)
        spool = sender(other, tmp_path / "spool")
        await spool.open()
        await spool.append(payloads(0, 1))
        await spool.finish(60)
        assert other.taken == [b"0", b"1", b"0", b"1"]
        assert (spool.rows_waiting, spool.trouble) == (0, None)
        assert other.checks == 3

    penstock.run(main())
    assert not (tmp_path / "spool").exists()


def test_what_is_lost_while_the_end_waits_stays_where_nobody_takes_it(tmp_path: Path) -> None:
    async def main() -> None:
        spool = sender(Dying(then="away"), tmp_path / "spool")
        await spool.open()
        await spool.append(payloads(0, 1))
        with pytest.raises(SinkWriteError, match=r"\(away\): they wait in"):
            await spool.finish(60)
        other = OtherSide()
        again = sender(other, tmp_path / "spool")
        await again.open()
        await again.finish(60)
        assert other.taken == [b"0", b"1"]

    penstock.run(main())


def test_a_second_recorder_of_a_spool_does_not_disturb_the_first(tmp_path: Path) -> None:
    """It would talk to the other side under the same name, and end the session of the first."""

    async def main() -> None:
        spool = sender(OtherSide(), tmp_path / "spool")
        await spool.open()
        second = OtherSide()
        with pytest.raises(SinkWriteError, match=r"cannot be opened: .*another writer"):
            await sender(second, tmp_path / "spool").open()
        assert second.checks == 0
        await spool.append(payloads(0))
        await spool.finish(60)

    penstock.run(main())


def test_a_refusal_at_open_leaves_the_rows_that_wait(tmp_path: Path) -> None:
    async def main() -> None:
        spool = sender(OtherSide(*["away"] * 1000), tmp_path / "spool")
        await spool.open()
        await spool.append(payloads(0))
        with pytest.raises(SinkWriteError, match="they wait in"):
            await spool.finish(60)
        with pytest.raises(SinkWriteError, match="cannot write to test://: no such place"):
            await sender(OtherSide("refuse"), tmp_path / "spool").open()
        other = OtherSide()
        again = sender(other, tmp_path / "spool")
        await again.open()
        await again.finish(60)
        assert other.taken == [b"0"]

    penstock.run(main())


def test_a_sink_that_is_closed_leaves_no_descriptor(tmp_path: Path) -> None:
    async def main() -> None:
        spool = sender(OtherSide(), tmp_path / "spool")
        await spool.open()
        await spool.append(payloads(0))
        await spool.finish(60)
        left = [place for _, place in open_descriptors() if str(tmp_path) in place]
        assert left == []

    penstock.run(main())


@pytest.mark.parametrize("lag", [0.0, 3600.0])
@pytest.mark.parametrize("place", [0, -1])
def test_a_damaged_record_costs_that_record_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lag: float, place: int
) -> None:
    """A flipped bit in an old segment would else end the sink for the rest of the night."""
    monkeypatch.setattr(spool_sender, "_SEGMENT_BYTES", 300)
    folder = tmp_path / "spool"

    async def main() -> None:
        everything, damaged = await left_with_damage(folder, place)
        data = damaged.read_bytes()
        other = OtherSide("take", *["away"] * (lag > 0), lag=lag)
        again = sender(other, folder)
        await again.open()
        await again.append([(1, b"last")])
        await again.finish(60)
        once = list(dict.fromkeys(other.taken))
        assert once == [each for each in [*everything, b"last"] if each in once]
        assert len(once) == len(everything)
        kept = tmp_path / f"spool-damaged-{damaged.name}"
        assert again.damaged == [kept]
        assert kept.read_bytes() == data

    penstock.run(main())
    assert not folder.exists()


async def left_with_damage(folder: Path, place: int, word: str = "") -> tuple[list[bytes], Path]:
    """Leave records in a spool, and flip a bit of a segment; the records, and the segment."""
    count = 30
    records = [(1, f"{word}{number}".encode()) for number in range(2 * count)]
    spool = sender(OtherSide(*["away"] * 1000), folder)
    await spool.open()
    await spool.append(records[:count])
    for record in records[count:]:
        await spool.append([record])
    with pytest.raises(SinkWriteError, match="they wait in"):
        await spool.finish(60)
    damaged = sorted(folder.glob("*.log"))[:-1][place]
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    return [record for _, record in records], damaged


@pytest.mark.parametrize("links", [True, False])
def test_each_damaged_segment_stays_though_an_earlier_one_had_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    """An empty spool counts from 0 again. Without hard links, what stays is a copy."""
    monkeypatch.setattr(spool_sender, "_SEGMENT_BYTES", 300)
    if not links:

        def refuse(source: object, target: object) -> None:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

        monkeypatch.setattr(spool_sender.os, "link", refuse)
    folder = tmp_path / "spool"

    async def main() -> None:
        contents, names = [], set()
        for word in ("one", "two"):
            _, damaged = await left_with_damage(folder, 0, word)
            contents.append(damaged.read_bytes())
            names.add(damaged.name)
            again = sender(OtherSide(), folder)
            await again.open()
            await again.finish(60)
            [kept] = again.damaged
            assert kept.read_bytes() == contents[-1]
        assert len(names) == 1
        found = tmp_path.glob("spool-damaged-*")
        assert sorted(each.read_bytes() for each in found) == sorted(contents)

    penstock.run(main())


class Defective:
    """An encoder that cannot make payloads."""

    kind = b"TEST"
    size = 0

    def add(self, batch: SampleBatch) -> None:
        """Let nothing wait."""

    def take(self) -> list[tuple[int, bytes]]:
        raise RuntimeError("a defect")


def test_a_spool_is_released_whatever_the_last_rows_bring(tmp_path: Path) -> None:
    for _ in range(2):  # the second one would find the spool in use
        file = SpooledFile(Defective(), OtherSide(), tmp_path / "s", most_bytes=99, patience=60)
        file.open()
        with pytest.raises(RuntimeError, match="a defect"):
            file.close({})
        assert file.sender.is_empty


class Broken:
    """Has one row to send, and then cannot make the next payload."""

    kind = b"TEST"
    size = 0

    def __init__(self) -> None:
        self.given = 0

    def add(self, batch: SampleBatch) -> None:
        """Let nothing wait."""

    def take(self) -> list[tuple[int, bytes]]:
        self.given += 1
        if self.given > 1:
            raise SinkWriteError("the last rows cannot be encoded")
        return payloads(0)


def test_what_is_lost_first_is_raised_and_what_follows_stands_beside_it(tmp_path: Path) -> None:
    other = OtherSide(*["away"] * 1000)
    file = SpooledFile(Broken(), other, tmp_path / "s", most_bytes=99, patience=60)
    file.open()
    file.sync()
    with pytest.raises(SinkWriteError, match="cannot be encoded") as caught:
        file.close({})
    [note] = caught.value.__notes__
    assert note.startswith("also: test:// did not accept the last rows (away): they wait in ")


def test_a_row_that_is_refused_again_counts_once(tmp_path: Path) -> None:
    async def main() -> None:
        other = OtherSide("bad row", "away", "bad row", lag=3600)
        spool = sender(other, tmp_path / "spool")
        await spool.open()
        await spool.append(payloads(0, 1))
        await spool.finish(60)
        assert other.taken == [b"0", b"0", b"1"]
        assert spool.rows_refused == 1

    penstock.run(main())


def pauses_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *script: str) -> list[float]:
    """How long is waited before a payload is taken, after what ``script`` says."""
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    async def main() -> None:
        other = OtherSide(*script)
        spool = sender(other, tmp_path / "spool")
        monkeypatch.setattr(spool, "_pause", pause)
        await spool.open()
        await spool.append(payloads(0))
        await other.took.wait()
        await spool.finish(60)
        assert other.taken == [b"0"]

    penstock.run(main())
    return pauses


def test_who_took_the_connection_over_is_not_fought_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The news of it is as good as a refusal; told a second time it is no news."""
    [pause] = pauses_of(tmp_path, monkeypatch, "taken over", "taken over")
    assert pause > 20


def test_a_server_that_names_a_time_is_left_alone_as_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [pause] = pauses_of(tmp_path, monkeypatch, "busy")
    assert 120 <= pause < 121


def test_a_mark_that_cannot_be_written_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk: what was sent goes from it, and makes room."""
    other = OtherSide()

    def refuse(mark: SentMark, number: int) -> None:
        raise OSError(28, "No space left on device")

    async def main() -> None:
        monkeypatch.setattr(SentMark, "write", refuse)
        spool = sender(other, tmp_path / "spool")
        await spool.open()
        await spool.append(payloads(0, 1))
        await spool.finish(60)

    penstock.run(main())
    assert other.taken == [b"0", b"1"]
    assert not (tmp_path / "spool").exists()


def test_a_full_disk_beside_the_spool_ends_no_sending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transport keeps there what the other side refuses; somebody may make room."""
    told: list[str | None] = []

    async def main() -> None:
        other = OtherSide("full", "full")
        spool = sender(other, tmp_path / "spool")

        async def pause(seconds: float) -> None:
            told.append(spool.trouble)

        monkeypatch.setattr(spool, "_pause", pause)
        await spool.open()
        await spool.append(payloads(0, 1))
        await other.took.wait()
        await spool.append(payloads(2))
        await spool.finish(60)
        assert other.taken == [b"0", b"1", b"2"]

    penstock.run(main())
    reason = "No space left on device; free some space on its disk"
    assert told == [f"a file beside the spool cannot be written: {reason}"] * 2


def test_a_defect_of_a_transport_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        other = OtherSide("break")
        spool = sender(other, tmp_path / "spool")
        await spool.open()
        await spool.append(payloads(0))
        await other.tried.wait()
        with pytest.raises(SinkWriteError, match="a defect"):
            await spool.append(payloads(1))
        with pytest.raises(SinkWriteError, match="a defect"):
            await spool.finish(5)

    penstock.run(main())


def test_a_spool_of_another_sink_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        spool = sender(OtherSide(*["away"] * 1000), tmp_path / "spool")
        await spool.open()
        await spool.append(payloads(0))
        with pytest.raises(SinkWriteError):
            await spool.finish(5)
        other = SpoolSender(OtherSide(), b"ELSE", tmp_path / "spool", 1 << 30)
        await other.open()
        with pytest.raises(SinkWriteError, match="rows for another kind of sink"):
            await other.finish(5)

    penstock.run(main())


def test_what_is_left_for_one_side_does_not_go_to_another(tmp_path: Path) -> None:
    async def main() -> None:
        folder = tmp_path / "spool"
        spool = sender(OtherSide("away", "away", name="test://a"), folder)
        await spool.open()
        await spool.append(payloads(1))
        with pytest.raises(SinkWriteError, match="did not accept"):
            await spool.finish(0)
        other = OtherSide(name="test://b")
        with pytest.raises(SinkWriteError, match=r"are for test://a, not for test://b.*remove"):
            await sender(other, folder).open()
        assert other.closed
        (folder / "to").unlink()
        spool = sender(other, folder)
        await spool.open()
        await spool.finish(30)
        assert other.taken == [b"1"]
        assert not folder.exists()

    penstock.run(main())


def test_a_log_of_something_else_is_no_spool(tmp_path: Path) -> None:
    async def main() -> None:
        async with SegmentedLog(tmp_path / "spool") as log:
            await log.append(b"abc")
        spool = sender(OtherSide(), tmp_path / "spool")
        await spool.open()
        with pytest.raises(SinkWriteError, match=r"rows for another kind of sink \(abc\)"):
            await spool.finish(5)

    penstock.run(main())


def test_a_mark_of_removed_segments_is_ignored(tmp_path: Path) -> None:
    mark = SentMark(tmp_path)
    assert mark.open(0, 9) == 0
    mark.write(7)
    mark.close()
    assert mark.open(0, 9) == 7
    mark.close()
    assert mark.open(0, 3) == 0  # the log begins anew
    mark.close()
    assert mark.open(0, 9) == 0
    mark.close()
    (tmp_path / "sent").write_bytes(b"torn")
    assert mark.open(2, 9) == 2
    mark.remove()
    assert not (tmp_path / "sent").exists()


@pytest.mark.parametrize("seed", range(2))
def test_every_payload_arrives_in_order_whatever_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Failures, lost answers, and copies of the folder as a kill would leave it at any moment."""
    monkeypatch.setattr(spool_sender, "_SEGMENT_BYTES", 2000)
    chance = random.Random(seed)
    folder = tmp_path / "spool"

    async def main() -> None:
        taken: list[bytes] = []
        number = 0
        for _ in range(6):
            doings = ["take"] * 3 + ["away", "lost answer"]
            other = OtherSide(*chance.choices(doings, k=chance.randrange(40)))
            other.taken = taken
            spool = sender(other, folder)
            await spool.open()
            for _ in range(chance.randrange(30)):
                many = chance.randrange(1, 9)
                await spool.append(payloads(*range(number, number + many)))
                number += many
                for _ in range(chance.randrange(3)):
                    await asyncio.sleep(0)
            # What a kill leaves: all that is durable, and a mark that may be an older one.
            shutil.copytree(folder, tmp_path / "killed")
            spool._sender.cancel()  # type: ignore[union-attr]
            await asyncio.wait([spool._sender])  # type: ignore[list-item]
            spool._mark.close()
            await spool._log.close()
            shutil.rmtree(folder)
            (tmp_path / "killed").rename(folder)
        last = OtherSide()
        last.taken = taken
        spool = sender(last, folder)
        await spool.open()
        await spool.finish(60)
        once = list(dict.fromkeys(taken))
        assert once == [b"%d" % each for each in range(number)]
        # A payload that comes again is one whose answer was lost, or the mark of it.
        for before, after in pairwise(taken):
            assert int(after) <= int(before) + 1

    penstock.run(main())
    assert not folder.exists()
