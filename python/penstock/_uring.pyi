# The native half of penstock.uring; private to the package.
import os
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, Self, TypedDict, Unpack

from typing_extensions import Buffer

class Options(TypedDict, total=False):
    user_data: object
    link: bool
    hardlink: bool
    drain: bool
    fixed_file: bool
    force_async: bool
    skip_success: bool

class _Probe(TypedDict):
    error: int
    opcodes: bytes
    features: int
    setup_flags: int

class HasFileno(Protocol):
    def fileno(self) -> int: ...

Fd = int | HasFileno
Completion = tuple[Any, Any, int]

class Message(tuple[int]):
    @property
    def value(self) -> int: ...

class PoolBuffer:
    @property
    def index(self) -> int: ...
    def release(self) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __len__(self) -> int: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc_info: object) -> None: ...

class BufferPool:
    size: int
    alignment: int
    registered: bool
    def __init__(
        self, count: int, size: int, *, alignment: int = 4096, registered: bool = False
    ) -> None: ...
    @property
    def available(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    def acquire(self) -> PoolBuffer: ...
    def resize(self, index: int, size: int, /) -> None: ...
    def close(self) -> None: ...
    def __getitem__(self, index: int, /) -> PoolBuffer: ...
    def __iter__(self) -> Iterator[PoolBuffer]: ...
    def __len__(self) -> int: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc_info: object) -> None: ...

class BufferRing:
    count: int
    size: int
    group: int
    @property
    def available(self) -> int: ...
    def take(self, result: int, flags: int, /) -> bytes: ...
    def close(self) -> None: ...

class Ring:
    def __init__(
        self, entries: int, flags: int, cq_entries: int, sq_thread_cpu: int, sq_thread_idle: int
    ) -> None: ...
    @property
    def entries(self) -> int: ...
    @property
    def cq_entries(self) -> int: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def prepared(self) -> int: ...
    @property
    def ring_fd(self) -> int: ...
    @property
    def setup_flags(self) -> int: ...
    @property
    def features(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    def close(self) -> None: ...
    def _close_ended(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc_info: object) -> None: ...

    # Submitting and waiting
    def submit(self) -> int: ...
    def submit_and_wait(self, count: int = 1, timeout: float | None = None) -> int: ...
    def wait_completions(
        self, count: int = 1, timeout: float | None = None
    ) -> list[Completion]: ...
    def completions(self, limit: int | None = None) -> list[Completion]: ...
    def wait_completion(self, timeout: float | None = None) -> Completion | None: ...
    def peek_completion(self) -> Completion | None: ...
    def _wait_for(self, user_data: object, /) -> Completion: ...
    def _end(self, user_data: object, /) -> None: ...
    def discard(self) -> int: ...

    # Preparing
    def prep_nop(self, user_data: object = None, **options: Unpack[_Flags]) -> Any: ...
    def prep_read(
        self,
        fd: Fd,
        buffer: int | Buffer | BufferRing,
        offset: int = -1,
        user_data: object = None,
        **options: Unpack[_Flags],
    ) -> Any: ...
    def prep_write(
        self,
        fd: Fd,
        data: Buffer,
        offset: int = -1,
        user_data: object = None,
        **options: Unpack[_Flags],
    ) -> Any: ...
    def prep_read_fixed(
        self,
        fd: Fd,
        buffer: Buffer,
        buffer_index: int,
        offset: int = -1,
        user_data: object = None,
        **options: Unpack[_Flags],
    ) -> Any: ...
    def prep_write_fixed(
        self,
        fd: Fd,
        data: Buffer,
        buffer_index: int,
        offset: int = -1,
        user_data: object = None,
        **options: Unpack[_Flags],
    ) -> Any: ...
    def prep_recv(
        self,
        fd: Fd,
        buffer: int | Buffer | BufferRing,
        flags: int = 0,
        user_data: object = None,
        **options: Unpack[_Flags],
    ) -> Any: ...
    def prep_recv_multishot(
        self,
        fd: Fd,
        buffers: BufferRing,
        flags: int = 0,
        user_data: object = None,
        **options: Unpack[_Flags],
    ) -> Any: ...
    def prep_read_multishot(
        self, fd: Fd, buffers: BufferRing, user_data: object = None, **options: Unpack[_Flags]
    ) -> Any: ...
    def prep_send(
        self,
        fd: Fd,
        data: Buffer,
        flags: int = 0,
        zero_copy: bool = False,
        user_data: object = None,
        **options: Unpack[_Flags],
    ) -> Any: ...
    def prep_readv(
        self,
        fd: Fd,
        buffers: Sequence[Buffer],
        offset: int = -1,
        flags: int = 0,
        user_data: object = None,
        **options: Unpack[_Flags],
    ) -> Any: ...
    def prep_writev(
        self,
        fd: Fd,
        buffers: Sequence[Buffer],
        offset: int = -1,
        flags: int = 0,
        user_data: object = None,
        **options: Unpack[_Flags],
    ) -> Any: ...
    def prep_readv_fixed(
        self,
        fd: Fd,
        buffers: Sequence[Buffer],
        buffer_index: int,
        offset: int = -1,
        flags: int = 0,
        user_data: object = None,
        **options: Unpack[_Flags],
    ) -> Any: ...
    def prep_writev_fixed(
        self,
        fd: Fd,
        buffers: Sequence[Buffer],
        buffer_index: int,
        offset: int = -1,
        flags: int = 0,
        user_data: object = None,
        **options: Unpack[_Flags],
    ) -> Any: ...
    def prep_recvmsg_multishot(
        self,
        fd: Fd,
        buffers: BufferRing,
        flags: int = 0,
        address_size: int = 0,
        control_size: int = 0,
        user_data: object = None,
        **options: Unpack[_Flags],
    ) -> Any: ...
    def prep_sendmsg_zc(
        self,
        fd: Fd,
        buffers: Sequence[Buffer],
        flags: int = 0,
        address: Buffer | None = None,
        user_data: object = None,
        **options: Unpack[_Flags],
    ) -> Any: ...
    def prep_recvmsg(
        self,
        fd: Fd,
        buffers: Sequence[Buffer],
        flags: int = 0,
        address: Buffer | None = None,
        user_data: object = None,
        **options: Unpack[_Flags],
    ) -> Any: ...
    def prep_sendmsg(
        self,
        fd: Fd,
        buffers: Sequence[Buffer],
        flags: int = 0,
        address: Buffer | None = None,
        user_data: object = None,
        **options: Unpack[_Flags],
    ) -> Any: ...
    def _prep(
        self,
        opcode: int,
        fd: Fd,
        address: int | Buffer = 0,
        length: int = ...,
        offset: int | Buffer = 0,
        flags: int = 0,
        ioprio: int = 0,
        file_index: int = 0,
        yields_fd: bool = False,
        third_address: int | Buffer = 0,
        padding: int = 0,
        **options: Unpack[Options],
    ) -> Any: ...
    def _key(self, user_data: object, /) -> int: ...

    # Many at once
    def prep_nop_many(self, user_data: Sequence[object], /) -> None: ...
    def prep_read_many(
        self,
        fd: Fd,
        buffers: int | Sequence[Buffer],
        offsets: Sequence[int],
        user_data: Sequence[object] | None = None,
        **options: Unpack[_Flags],
    ) -> list[Any]: ...
    def prep_write_many(
        self,
        fd: Fd,
        data: Sequence[Buffer],
        offsets: Sequence[int],
        user_data: Sequence[object] | None = None,
        **options: Unpack[_Flags],
    ) -> list[Any]: ...
    def read_offsets(
        self, fd: Fd, block_size: int, offsets: Sequence[int], fixed_file: bool = False
    ) -> list[bytes]: ...

    # Registering
    def register_files(self, fds: Sequence[Fd], /) -> None: ...
    def register_files_sparse(self, count: int, /) -> None: ...
    def update_files(self, index: int, fds: Sequence[Fd], /) -> None: ...
    def unregister_files(self) -> None: ...
    def register_buffers(self, buffers: BufferPool | Sequence[Buffer], /) -> None: ...
    def unregister_buffers(self) -> None: ...
    def register_buffer_ring(self, count: int, size: int) -> BufferRing: ...
    def register_eventfd(self, fd: Fd, /) -> None: ...
    def unregister_eventfd(self) -> None: ...
    def set_max_workers(self, bounded: int, unbounded: int, /) -> tuple[int, int]: ...

class _Flags(TypedDict, total=False):
    link: bool
    hardlink: bool
    drain: bool
    fixed_file: bool
    force_async: bool
    skip_success: bool

def probe_kernel() -> _Probe: ...
def read_cached_file(path: str | bytes | os.PathLike[Any], /) -> bytes | int: ...
