"""The older of the two interfaces of ASGI applications."""

from __future__ import annotations

import inspect
from typing import Any

from penstock.asgi._types import Application, Receive, Scope, Send

__all__ = ["as_asgi3"]


def as_asgi3(app: Any) -> Application:
    """Return an application of ASGI 3: itself, or one around an application of ASGI 2.

    Raises:
        TypeError: If it cannot be called.
    """
    if not callable(app):
        raise TypeError(f"an ASGI application is callable, unlike {app!r}")
    if inspect.isclass(app):
        has_await = hasattr(app, "__await__")
    elif inspect.isfunction(app) or inspect.ismethod(app):
        has_await = inspect.iscoroutinefunction(app)
    else:
        has_await = inspect.iscoroutinefunction(getattr(app, "__call__", app))  # noqa: B004
    if has_await or _takes_three(app):
        return app  # type: ignore[no-any-return]

    async def single(scope: Scope, receive: Receive, send: Send) -> None:
        await app(scope)(receive, send)

    return single


def _takes_three(app: Any) -> bool:
    try:
        inspect.signature(app).bind(None, None, None)
    except TypeError:
        return False
    except ValueError:
        return True  # native code without a signature: today's interface
    return True
