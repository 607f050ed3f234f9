"""The other interfaces of applications: ASGI 2 and WSGI."""

from __future__ import annotations

import inspect
from typing import Any, Literal

from penstock.asgi._types import Application, Receive, Scope, Send

Interface = Literal["asgi3", "asgi2", "wsgi"]


def interface_of(app: Any) -> Interface:
    """Return the interface of an application, found by the parameters that it takes.

    A coroutine function, or a callable with three parameters, is an ASGI 3 application. A plain
    callable with two parameters is a WSGI application, any other an ASGI 2 application.

    Raises:
        TypeError: If it cannot be called.
    """
    if not callable(app):
        raise TypeError(f"an application must be callable, not {app!r}")
    if inspect.isclass(app):
        has_await = hasattr(app, "__await__")
    elif inspect.isfunction(app) or inspect.ismethod(app):
        has_await = inspect.iscoroutinefunction(app)
    else:
        has_await = inspect.iscoroutinefunction(getattr(app, "__call__", app))  # noqa: B004
    if has_await:
        return "asgi3"
    try:
        signature = inspect.signature(app)
    except ValueError:
        return "asgi3"  # native code without a signature: today's interface
    if _takes(signature, 3):
        return "asgi3"
    return "wsgi" if _takes(signature, 2) else "asgi2"


def as_asgi3(
    app: Any,
    interface: Literal["auto"] | Interface = "auto",
    *,
    threads: int = 16,
    multiprocess: bool = False,
) -> Application:
    """Return an application of ASGI 3: `app` itself, or one that calls `app` by its interface.

    Args:
        app: The application, of ASGI 2, ASGI 3 or WSGI.
        interface: Its interface; "auto" finds it by the parameters that `app` takes.
        threads: The largest number of threads that run a WSGI application; see `wsgi`.
        multiprocess: The value of `wsgi.multiprocess` for a WSGI application.

    Raises:
        TypeError: If `app` cannot be called.
        ValueError: If there is no such interface.
    """
    if interface not in ("auto", "asgi3", "asgi2", "wsgi"):
        raise ValueError(f"interface must be 'auto', 'asgi3', 'asgi2' or 'wsgi', not {interface!r}")
    found = interface_of(app)
    chosen = found if interface == "auto" else interface
    if chosen == "asgi3":
        return app  # type: ignore[no-any-return]
    if chosen == "wsgi":
        from penstock.asgi._wsgi.adapter import wsgi

        return wsgi(app, threads=threads, multiprocess=multiprocess)

    async def single(scope: Scope, receive: Receive, send: Send) -> None:
        await app(scope)(receive, send)

    return single


def _takes(signature: inspect.Signature, number: int) -> bool:
    try:
        signature.bind(*[None] * number)
    except TypeError:
        return False
    return True
