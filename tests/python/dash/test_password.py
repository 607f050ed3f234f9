"""A password for those who may look: for browsers a cookie, for programs the basic scheme."""

from __future__ import annotations

import base64
import http.client
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from penstock.dash import Board
from tests.python.conftest import CORE_MISSING

pytestmark = pytest.mark.skipif(CORE_MISSING, reason="penstock._core is not built")

PASSWORD = "Schlüssel & more"
FORM = "password=Schl%C3%BCssel+%26+more"


def ask(
    served: Any, path: str, *, method: str = "GET", body: str = "", **headers: str
) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        names = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, names, answer.read().decode()
    finally:
        connection.close()


def basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"anybody:{password}".encode()).decode()


@pytest.fixture
def guarded(serve: Any) -> Any:
    return serve(Board("secret run"), password=PASSWORD)


@pytest.mark.parametrize("path", ["/", "/dash.js", "/csv?from=0&to=1", "/login"])
def test_nothing_is_shown_without_the_password(guarded: Any, path: str) -> None:
    status, headers, body = ask(guarded, path)
    assert status == 401
    assert "secret run" not in body
    assert "set-cookie" not in headers
    assert ("<form" in body) == (path in ("/", "/login"))


def test_the_password_opens_the_page_and_its_websocket(guarded: Any, browse: Any) -> None:
    with pytest.raises(InvalidStatus) as refused:
        browse(guarded)
    assert refused.value.response.status_code in (401, 403)
    status, headers, _ = ask(guarded, "/login", method="POST", body=FORM)
    assert (status, headers["location"]) == (303, "./")
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    pair = cookie.partition(";")[0]
    assert ask(guarded, "/", Cookie=f"other=1; {pair}")[0] == 200
    hello = browse(guarded, additional_headers={"Cookie": pair}).wait_for("hello")
    assert (hello["title"], hello["control"]) == ("secret run", "none")
    name, _, value = pair.partition("=")
    assert ask(guarded, "/", Cookie=f"{name}={value[:-1]}x")[0] == 401


def test_a_wrong_password_opens_nothing(guarded: Any) -> None:
    status, headers, body = ask(guarded, "/login", method="POST", body="password=wrong")
    assert (status, "set-cookie" in headers) == (401, False)
    assert "this is not the password" in body
    assert ask(guarded, "/", Authorization=basic("wrong"))[0] == 401
    assert ask(guarded, "/", Authorization="Basic ***")[0] == 401
    assert ask(guarded, "/login", method="POST", body="password=" + "a" * 5000)[0] == 401


def test_a_program_sends_the_password_with_each_request(guarded: Any, browse: Any) -> None:
    assert ask(guarded, "/", Authorization=basic(PASSWORD))[0] == 200
    headers = {"Authorization": basic(PASSWORD)}
    assert browse(guarded, additional_headers=headers).wait_for("hello")["title"] == "secret run"


def test_the_page_of_another_site_cannot_log_in(guarded: Any) -> None:
    headers = {"Origin": "http://evil.example"}
    assert ask(guarded, "/login", method="POST", body=FORM, **headers)[0] == 403
