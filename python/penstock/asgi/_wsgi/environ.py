"""The environ of a request, from its ASGI scope."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote_to_bytes

from penstock.asgi._types import Scope
from penstock.asgi._wsgi.files import FileWrapper

_MOST_NAMES = 512
_LONGEST_NAME = 64
_NAMES: dict[bytes, str] = {}
_PROTOCOLS = {"1.1": "HTTP/1.1", "1.0": "HTTP/1.0", "2": "HTTP/2"}


def constant_part(*, multiprocess: bool) -> dict[str, Any]:
    """Return the part that is the same for all requests, with all keys that each of them sets.

    A copy of it then takes them without growing, which costs more than to set them.
    """
    return {
        "wsgi.version": (1, 0),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": multiprocess,
        "wsgi.run_once": False,
        "wsgi.file_wrapper": FileWrapper,
        # Reading ends at the body's end, even where its length is not known before.
        "wsgi.input_terminated": True,
        "wsgi.input": None,
        "wsgi.url_scheme": "",
        "REQUEST_METHOD": "",
        "SCRIPT_NAME": "",
        "PATH_INFO": "",
        "QUERY_STRING": "",
        "REQUEST_URI": "",
        "RAW_URI": "",
        "SERVER_PROTOCOL": "",
        "SERVER_NAME": "",
        "SERVER_PORT": "",
        "REMOTE_ADDR": "",
    }


def fill_environ(environ: dict[str, Any], scope: Scope) -> None:
    """Set the variables of a request.

    A string of WSGI has a byte in each character. PEP 3333 has the names, RFC 3875 their meaning.
    """
    raw_path = scope.get("raw_path")
    if raw_path is None:
        path = raw_path_text = scope["path"].encode().decode("latin-1")
    else:
        path = raw_path_text = raw_path.decode("latin-1")
        if "%" in path:
            path = unquote_to_bytes(raw_path).decode("latin-1")
    root = scope.get("root_path")
    if root:
        root = root.rstrip("/").encode().decode("latin-1")
        environ["SCRIPT_NAME"] = root
        path = path.removeprefix(root)
    environ["PATH_INFO"] = path
    query = scope["query_string"]
    if query:
        query = query.decode("latin-1")
        environ["QUERY_STRING"] = query
        raw_path_text = f"{raw_path_text}?{query}"
    environ["REQUEST_URI"] = environ["RAW_URI"] = raw_path_text
    environ["REQUEST_METHOD"] = scope["method"]
    version = scope["http_version"]
    environ["SERVER_PROTOCOL"] = _PROTOCOLS.get(version) or f"HTTP/{version}"
    environ["wsgi.url_scheme"] = scope.get("scheme", "http")
    client = scope.get("client")
    if client:  # a Unix socket's client has no address
        environ["REMOTE_ADDR"] = client[0]
        environ["REMOTE_PORT"] = str(client[1])
    _add_fields(environ, scope["headers"])
    server = scope.get("server")
    if server and server[1] is not None:
        environ["SERVER_NAME"] = server[0]
        environ["SERVER_PORT"] = str(server[1])
    else:
        host, _, port = environ.get("HTTP_HOST", "").rpartition(":")
        if not port.isdigit():
            host, port = environ.get("HTTP_HOST", ""), ""
        environ["SERVER_NAME"] = host or "localhost"
        environ["SERVER_PORT"] = port or ("443" if environ["wsgi.url_scheme"] == "https" else "80")


def _add_fields(environ: dict[str, Any], headers: Iterable[tuple[bytes, bytes]]) -> None:
    for name, value in headers:
        key = _NAMES.get(name) or _key(name)
        if not key:
            continue
        if key not in environ:
            environ[key] = value.decode("latin-1")
        else:
            between = "; " if key == "HTTP_COOKIE" else ","
            environ[key] = f"{environ[key]}{between}{value.decode('latin-1')}"


def _key(name: bytes) -> str:
    """Return the variable of a field; nothing for a field that is left out."""
    # X_Y would be taken for X-Y, by which a proxy may vouch for the client; Proxy would be taken
    # for the variable HTTP_PROXY (CVE-2016-5385).
    if b"_" in name or name in (b"proxy", b"transfer-encoding"):
        return ""
    key = name.decode("latin-1").upper().replace("-", "_")
    if key not in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        key = f"HTTP_{key}"
    if len(_NAMES) < _MOST_NAMES and len(name) <= _LONGEST_NAME:
        _NAMES[name] = key
    return key
