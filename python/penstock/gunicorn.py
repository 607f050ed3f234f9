"""A worker for gunicorn: ``gunicorn -k penstock.gunicorn.Worker main:app``.

gunicorn then reads its options, listens, and starts, watches and replaces the workers.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from gunicorn import sock as gunicorn_sock
from gunicorn.arbiter import Arbiter
from gunicorn.workers.base import Worker as _BaseWorker

import penstock
from penstock import asgi

__all__ = ["Worker"]

_TICK = 1.0
_THREADS = 16


class Worker(_BaseWorker):  # type: ignore[misc]
    """Serves ASGI and WSGI applications on Penstock's loop, in a worker of gunicorn.

    Of gunicorn's settings, `keepalive`, `graceful_timeout`, `timeout`, `max_requests`, `threads`
    (of a WSGI application; 1 is taken for 16), `forwarded_allow_ips`, `limit_request_fields`,
    `backlog`, those of TLS, of processes and of logging have an effect. The access log has
    uvicorn's format. The sign of life comes from the loop, so a loop that is blocked for longer
    than `timeout` is replaced.
    """

    def init_signals(self) -> None:
        """Set up the signals."""
        super().init_signals()
        # The loop has a descriptor of its own for them.
        signal.set_wakeup_fd(-1)

    def run(self) -> None:
        """Serve until a signal."""
        with asyncio.Runner(loop_factory=penstock.new_event_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        try:
            server = await asgi.serve(
                self.wsgi,
                sock=[each.sock for each in self.sockets],
                ssl=gunicorn_sock.ssl_context(self.cfg) if self.cfg.is_ssl else None,
                **self._options(),
            )
        except asgi.LifespanFailed as error:
            self.log.error("The application refused to start: %s", error)
            sys.exit(Arbiter.WORKER_BOOT_ERROR)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, server.close)
        for signum in (signal.SIGINT, signal.SIGQUIT):
            loop.add_signal_handler(signum, self._quit, server)
        ticking = asyncio.create_task(self._tick(server))
        try:
            await server.wait_closed()
        except asgi.LifespanFailed as error:
            self.log.error("The application's shutdown failed: %s", error)
        finally:
            ticking.cancel()

    def _options(self) -> dict[str, Any]:
        cfg = self.cfg
        trusted = cfg.forwarded_allow_ips
        return {
            "wsgi_threads": cfg.threads if cfg.threads > 1 else _THREADS,
            "wsgi_multiprocess": cfg.workers > 1,
            "proxy_headers": True,
            "forwarded_allow_ips": trusted if isinstance(trusted, str) else ",".join(trusted),
            "access_log": bool(cfg.accesslog),
            "limit_head_fields": cfg.limit_request_fields,
            "timeout_keep_alive": cfg.keepalive,
            "timeout_graceful_shutdown": cfg.graceful_timeout,
            "backlog": cfg.backlog,
            "logger": self.log.error_log,
            "access_logger": self.log.access_log,
        }

    def _quit(self, server: asgi.Server) -> None:
        self.alive: bool = False
        self.cfg.worker_int(self)
        server.abort()

    async def _tick(self, server: asgi.Server) -> None:
        wait = min(_TICK, self.timeout / 4) if self.timeout else _TICK
        while True:
            self.notify()
            if self.ppid != os.getppid():
                self.log.info("Parent changed, shutting down: %s", self)
                self.alive = False
            elif server.total_requests >= self.max_requests and self.alive:
                self.log.info("Autorestarting worker after current request.")
                self.alive = False
            if not self.alive:  # also by the reloader
                server.close()
            await asyncio.sleep(wait)
