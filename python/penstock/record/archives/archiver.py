"""A member of the group that archives a stream."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.record._nats.connection import NatsConnection
from penstock.record._nats.jetstream import NO_SUCH_STREAM, Leases, Login, ask, said
from penstock.record._nats.nats_sink import nats_address
from penstock.record._nats.run_reader import RunReader
from penstock.record._network.protocol import Away, Misconfigured
from penstock.record._network.server import Trust
from penstock.record.archives.manifest import Fenced
from penstock.record.archives.postgres_archive import PostgresArchive
from penstock.record.archives.run_archive import DamagedFile, RunArchive
from penstock.record.archives.stores import ArchiveError, Store
from penstock.record.archives.waiting_run import RunOptions, WaitingRun
from penstock.record.arrow import load_pyarrow
from penstock.record.errors import RecordError

__all__ = ["Archiver", "ArchiverCounts", "ArchiverOptions", "ArchiverRefused"]

_RUN = re.compile(r"[A-Za-z0-9_-]{1,128}")
_LONGEST_WAIT = 1.0
_SHORT_WAIT = 0.05
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
# A NATS server puts a hundred thousand subjects on a page.
_MOST_PAGES = 1000


class ArchiverRefused(RecordError):
    """The server refuses an archiver: it wants another login, or has no JetStream."""


@dataclass(frozen=True, slots=True)
class ArchiverOptions:
    """How a member works.

    Attributes:
        run: when files are written and joined.
        purge: remove from the stream what is archived, except the last message of each device,
            which its recorder asks for after a lost connection, and of each schema.
        lease: seconds until another member takes over from one that was killed; the first member
            of the group decides for all.
        idle: seconds without a message after which a run is no longer followed.
        timeout: seconds for an answer of the server.
    """

    run: RunOptions = field(default_factory=RunOptions)
    purge: bool = False
    lease: float = 15.0
    idle: float = 300.0
    timeout: float = 10.0


@dataclass(slots=True)
class ArchiverCounts:
    """What a member has done so far.

    Attributes:
        rows: rows that it has committed.
        files: files that it has written, without joined ones; in PostgreSQL tables, each once a
            run.
        missing: messages that the stream had lost before they were read.
        refused: messages that were none of a recorder's.
    """

    rows: int = 0
    files: int = 0
    missing: int = 0
    refused: int = 0


@dataclass(slots=True)
class _Followed:
    """A run that this member archives.

    Attributes:
        purged: up to which place each subject was purged.
    """

    archive: WaitingRun[Any]
    stop: asyncio.Event
    task: asyncio.Task[None] | None = None
    settled: bool = False
    purged: dict[str, int] = field(default_factory=dict)


class Archiver:
    """Archives the runs of a stream, together with other members of its group.

    Each run has one owner at a time, by a lease in a stream beside it. The owner reads the run's
    messages in order and writes them as Parquet files, which the next version of the run's manifest
    then names; or into PostgreSQL, in one transaction with the manifest. Whatever is killed, a row
    is in the archive once: an owner that has lost its lease cannot commit, and its successor reads
    on from where the manifest ends.

    Args:
        url: ``nats://HOST[:4222]/PREFIX`` as for :class:`~penstock.record.NatsSink`.
        store: where the archive is, see :func:`store_at` and :class:`PostgresArchive`.
        stream: its name; by default the prefix, in which a full stop is written ``_``.
        token_file: a file with the token; else the environment is asked, as by the sink.
        ca_file: certificates (PEM) of an authority of your own.
        options: see there.
        told: called with a sentence when something is wrong, and when it is right again.

    Needs pyarrow (SinkDependencyError). For one loop of asyncio.

    Raises:
        ValueError: the URL is malformed, or holds a password.
    """

    def __init__(
        self,
        url: str,
        store: Store | PostgresArchive,
        *,
        stream: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        options: ArchiverOptions | None = None,
        told: Callable[[str], object] = lambda text: None,
    ) -> None:
        load_pyarrow()
        self.counts: ArchiverCounts = ArchiverCounts()
        self._address = nats_address(url)
        self._tls = Trust(ca_file) if self._address.scheme == "natss" else None
        self._stream = self._address.name.replace(".", "_") if stream is None else stream
        self._login = Login.of(token_file)
        self._store = store
        self._options = ArchiverOptions() if options is None else options
        self._leases = Leases(self._stream, self._options.lease)
        self._told = told
        self._trouble = False
        self._began = False
        self._stop = asyncio.Event()
        self._once = False
        self._runs: dict[str, _Followed] = {}
        self._leaving: list[asyncio.Task[None]] = []  # cancelled, and not yet seen to their end
        # Runs of which everything is archived, with what the stream said of them then.
        self._settled: dict[str, tuple[int, tuple[int, int]]] = {}
        self._seen: dict[str, tuple[int, int]] = {}

    def stop(self) -> None:
        """Write what waits, give back the leases, and let :meth:`run` return. On its loop."""
        self._stop.set()

    async def run(self, *, once: bool = False) -> None:
        """Archive until :meth:`stop`.

        A server or a store that is away is waited for. Cancellation: nothing is lost, and what
        waits is written by the next member.

        Args:
            once: return when everything is archived that is in the stream and that no other member
                is at.

        Raises:
            ArchiverRefused: the server refuses this client, or has no JetStream.
        """
        self._once = once
        pause = _SHORTEST_PAUSE
        while not self._stop.is_set():
            started = time.monotonic()
            try:
                await self._session()
                return
            except Misconfigured as error:
                if not self._began:
                    raise ArchiverRefused(f"{self._address} refuses: {error}") from error
                self._tell(f"{self._address} refuses: {error}")
            except Away as error:
                self._tell(f"{self._address} is away: {error}")
            if time.monotonic() - started > _LONGEST_PAUSE:
                pause = _SHORTEST_PAUSE
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause * (0.5 + secrets.randbelow(1000) / 1000)):
                    await self._stop.wait()
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _session(self) -> None:
        timeout = self._options.timeout
        address, tls = self._address, None if self._tls is None else self._tls.context()
        connection = await NatsConnection.connect(
            address.host, address.port, tls, self._login.read(), timeout
        )
        try:
            await self._leases.prepare(connection, timeout)
            self._began = True
            while not self._stop.is_set():
                await self._survey(connection)
                self._right_again()
                if self._once and not self._runs:
                    break
                await self._wait()
            for followed in self._runs.values():
                followed.stop.set()
            while self._runs:
                await self._wait()
            await self._leases.leave(connection, timeout)
        finally:
            tasks = [each.task for each in self._runs.values() if each.task is not None]
            tasks += self._leaving
            self._leaving = []
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
            self._runs.clear()
            await connection.close()
            # All have lost the one connection, which one of them has reported.
            for error in (task.exception() for task in tasks if not task.cancelled()):
                if error is not None and not isinstance(error, Away):
                    raise error

    async def _wait(self) -> None:
        """Until the leases must be prolonged, or a run has ended. Away: one has lost the server."""
        tasks = {each.task for each in self._runs.values() if each.task is not None}
        stopped = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait(
                {*tasks, stopped},
                timeout=self._leases.seconds / 3,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            stopped.cancel()
        for run, followed in list(self._runs.items()):
            task = followed.task
            if task is None or not task.done():
                continue
            del self._runs[run]
            if followed.settled:
                archived = followed.archive.position
                self._settled[run] = archived, self._seen.get(run, (0, 0))
            task.result()

    async def _survey(self, connection: NatsConnection) -> None:
        """Prolong the leases, give back some for another member, and take free runs."""
        timeout, leases = self._options.timeout, self._leases
        await leases.announce(connection, timeout)
        self._leaving = [task for task in self._leaving if not task.done() or _failed(task)]
        for run, followed in list(self._runs.items()):
            if not await leases.take(connection, timeout, run):
                assert followed.task is not None
                followed.task.cancel()
                self._leaving.append(followed.task)
                del self._runs[run]
        for run in leases.held:
            if run not in self._runs:
                await leases.give_back(connection, timeout, run)
        runs = await self._discover(connection)
        members, held = await leases.survey(connection, timeout)
        free = [run for run in runs if run not in held]
        share = -(-(len(held) + len(free)) // members)
        surplus = len(self._runs) - share
        for followed in list(self._runs.values())[: max(0, surplus)]:
            followed.stop.set()
        for run in free:
            if len(self._runs) >= max(1, share):
                break
            if await leases.take(connection, timeout, run):
                followed = self._runs[run] = _Followed(self._archive_of(run), asyncio.Event())
                followed.task = asyncio.create_task(self._follow(connection, followed))

    def _archive_of(self, run: str) -> WaitingRun[Any]:
        if isinstance(self._store, PostgresArchive):
            return self._store.archive_of(run, self._options.run)
        return RunArchive(self._store, run, self._options.run)

    async def _discover(self, connection: NatsConnection) -> list[str]:
        """The runs of the stream with something that may not be archived."""
        subjects, first = await self._subjects(connection)
        counts: dict[str, int] = {}
        for subject, count in subjects.items():
            run = subject.removeprefix(f"{self._address.name}.").partition(".")[0]
            if _RUN.fullmatch(run):
                counts[run] = counts.get(run, 0) + count
        self._seen = {run: (count, first) for run, count in counts.items()}
        self._settled = {run: each for run, each in self._settled.items() if run in counts}
        return [run for run in counts if not await self._is_settled(connection, run)]

    async def _subjects(self, connection: NatsConnection) -> tuple[dict[str, int], int]:
        """How many messages each subject has, and the first place of the stream.

        A server tells so many subjects at once, in the order of their names. One that comes between
        two pages shifts the next one, which then begins with some that are known, or may be nothing
        else at the end. The next survey finds what was missed.

        Raises:
            Away: the stream is not there, or its pages do not end.
        """
        subjects: dict[str, int] = {}
        place, total, first, longest = 0, 1, 0, 0
        for _ in range(_MOST_PAGES):
            if place >= total:
                break
            asked = {"subjects_filter": f"{self._address.name}.>", "offset": place}
            what = f"STREAM.INFO.{self._stream}"
            found = await ask(connection, self._options.timeout, what, asked)
            if (error := found.get("error")) is not None:
                if self._once and error.get("err_code") == NO_SUCH_STREAM:
                    return {}, 0
                raise Away(f"the stream {self._stream} is not there yet: {said(error)}")
            try:
                told = dict(found["state"].get("subjects") or {})
                total, first = int(found.get("total", 0)), int(found["state"]["first_seq"])
            except (KeyError, TypeError, ValueError, AttributeError) as malformed:
                raise Away(f"the answer is not JetStream's: {str(found)[:80]!r}") from malformed
            if not told:
                break
            if len(told) >= longest and told.keys() <= subjects.keys():
                raise Away(
                    f"the stream {self._stream} tells {min(told)!r} again as its subject {place} "
                    f"of {total}: its server does not go on to the next page; update the server"
                )
            subjects |= told
            place, longest = place + len(told), max(longest, len(told))
        else:
            raise Away(
                f"the stream {self._stream} has listed {place} subjects in {_MOST_PAGES} pages, "
                f"and says that it has {total}: use a stream for fewer runs"
            )
        return subjects, first

    async def _is_settled(self, connection: NatsConnection, run: str) -> bool:
        if run in self._runs or run not in self._settled:
            return False
        archived, seen = self._settled[run]
        if self._seen[run] == seen:
            return True
        # With messages removed and others come, the count alone tells nothing.
        if not await self._reader(connection, run).is_last(archived):
            return False
        self._settled[run] = archived, self._seen[run]
        return True

    def _reader(self, connection: NatsConnection, run: str) -> RunReader:
        subjects = f"{self._address.name}.{run}.>"
        return RunReader(connection, self._stream, subjects, self._options.timeout)

    async def _follow(self, connection: NatsConnection, followed: _Followed) -> None:
        """Archive a run until it is idle, or it is to be given back."""
        archive, stop = followed.archive, followed.stop
        reader = self._reader(connection, archive.run)
        try:
            await self._patiently(archive.load)
            manifest = archive.manifest
            after = manifest.sequence
            if after and await reader.id_at(after) != manifest.message_id:
                # Not the stream that it was: after a power cut, or from a backup. What is archived
                # is known by its part numbers.
                after = 0
                archive.start_over()
            await reader.begin(after)
            idle_since = time.monotonic()
            while not stop.is_set():
                longest = _SHORT_WAIT if self._once else _LONGEST_WAIT
                messages = await reader.read(min(longest, archive.due_in()))
                for message in messages:
                    archive.add(message)
                if messages:
                    idle_since = time.monotonic()
                idle = not messages and (
                    self._once or time.monotonic() - idle_since > self._options.idle
                )
                if idle and not await reader.is_last(archive.position):
                    continue  # a busy server has answered before it could look
                if archive.waiting and (idle or archive.due_in() <= 0):
                    await self._write(archive)
                    await self._purge(connection, followed)
                    continue
                if idle:
                    await self._tidy(archive, least=2)
                    await self._purge(connection, followed)  # schemas come last
                    followed.settled = True
                    return
            if archive.waiting:
                await self._write(archive)
                await self._purge(connection, followed)
        except Fenced:
            self._told(f"the run {archive.run} has another archiver now")
        finally:
            reader.end()

    async def _write(self, archive: WaitingRun[Any]) -> None:
        before = archive.manifest
        after = await self._patiently(archive.write)
        self.counts.rows += after.rows - before.rows
        self.counts.files += len(after.files) - len(before.files)
        self.counts.refused += after.refused - before.refused
        self.counts.missing += _missing(after) - _missing(before)
        await self._tidy(archive)

    async def _purge(self, connection: NatsConnection, followed: _Followed) -> None:
        """Remove from the stream what is archived, where that is wanted."""
        if not self._options.purge:
            return
        for subject, sequence in followed.archive.archived_subjects(self._address.name).items():
            # The server takes a place of 1 for no place, and would remove the message itself.
            if sequence <= 1 or followed.purged.get(subject) == sequence:
                continue
            # Up to the message, and without it.
            asked = {"filter": subject, "seq": sequence}
            what = f"STREAM.PURGE.{self._stream}"
            answer = await ask(connection, self._options.timeout, what, asked)
            if (error := answer.get("error")) is not None:
                raise Away(said(error))
            followed.purged[subject] = sequence

    async def _tidy(self, archive: WaitingRun[Any], least: int | None = None) -> None:
        while await self._patiently(archive.tidy, least):
            pass

    async def _patiently(self, do: Callable[..., Any], *arguments: Any) -> Any:
        """Do it in a thread, again and again while the store is away."""
        pause = _SHORTEST_PAUSE
        while True:
            try:
                result = await asyncio.to_thread(do, *arguments)
            except DamagedFile as error:
                self._told(str(error))  # the same call goes on without it
            except ArchiveError as error:
                self._tell(str(error))
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                self._right_again()
                return result

    def _tell(self, text: str) -> None:
        if not self._trouble:
            self._trouble = True
            self._told(text)

    def _right_again(self) -> None:
        if self._trouble:
            self._trouble = False
            self._told("all is well again")


def _failed(task: asyncio.Task[None]) -> bool:
    return not task.cancelled() and task.exception() is not None


def _missing(manifest: Any) -> int:
    return sum(mark.missing for mark in manifest.devices.values())
