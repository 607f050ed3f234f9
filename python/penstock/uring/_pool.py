"""Rings for several threads: :class:`UringPool`."""

from __future__ import annotations

import threading
from typing import Any, Self

from penstock.uring._context import UringCtx


class UringPool:
    """``n`` rings, each of which belongs to the thread that first uses it.

    ``pool[number]`` is made on first use, with the arguments of :class:`UringCtx` that the pool was
    given; the number is taken modulo ``n``. In any other thread the ring's methods raise
    ``RuntimeError``. The pool itself may be used from every thread.
    """

    def __init__(self, n: int, **options: Any) -> None:
        if n < 1:
            raise ValueError(f"n is {n}; it must be 1 or more")
        self._options = options
        self._rings: list[tuple[UringCtx, threading.Thread] | None] = [None] * n
        self._lock = threading.Lock()
        self._closed = False

    def __len__(self) -> int:
        return len(self._rings)

    def __getitem__(self, number: int) -> UringCtx:
        """Return the ring of this number.

        Raises:
            UringError: if it cannot be made.
            ValueError: if the pool is closed.
        """
        place = number % len(self._rings)
        with self._lock:
            if self._closed:
                raise ValueError("the pool of rings is closed")
            found = self._rings[place]
            if found is None:
                found = UringCtx(**self._options), threading.current_thread()
                self._rings[place] = found
        return found[0]

    def rings(self) -> list[UringCtx]:
        """Return the rings that were made so far."""
        with self._lock:
            return [found[0] for found in self._rings if found is not None]

    def close(self) -> None:
        """Close the rings of this thread and of threads that have ended. May be called again.

        Raises:
            RuntimeError: if rings of other threads are open. They stay open, and each such thread
                can close its own.
        """
        with self._lock:
            self._closed = True
            others = []
            for place, found in enumerate(self._rings):
                if found is None or found[0].closed:
                    self._rings[place] = None
                elif found[1] is threading.current_thread():
                    found[0].close()
                    self._rings[place] = None
                elif found[1].is_alive():
                    others.append(f"{place} of {found[1].name}")
                else:
                    found[0]._close_ended()
                    self._rings[place] = None
        if others:
            raise RuntimeError(
                "rings are open that belong to other threads, which must close them: "
                + ", ".join(others)
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
