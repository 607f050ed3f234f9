"""Who may ask the server and change an instrument, and what is refused."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from websockets.exceptions import InvalidStatus

from penstock.dash import Board
from tests.python.conftest import CORE_MISSING
from tests.python.dash.served_boards import FakeControls, get, recorded, refusal

pytestmark = pytest.mark.skipif(CORE_MISSING, reason="penstock._core is not built")


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "localhost.evil.example", "a b", "user@127.0.0.1"],
)
def test_another_host_is_refused(serve: Any, host: str) -> None:
    served = serve(Board("run"))
    status, _, body = get(served, Host=host.format(port=served.port))
    assert status in (400, 403)
    assert b"Penstock" not in body


@pytest.mark.parametrize(
    "host", ["localhost:{port}", "127.0.0.1:{port}", "[::1]:{port}", "lab.local"]
)
def test_own_hosts_are_served(serve: Any, host: str) -> None:
    served = serve(Board("run"), names=["lab.local"])
    status, headers, body = get(served, Host=host.format(port=served.port))
    assert (status, b"Penstock" in body) == (200, True)
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1"])
def test_the_page_of_another_site_gets_no_websocket(serve: Any, browse: Any, origin: str) -> None:
    served = serve(Board("run"))
    with pytest.raises(InvalidStatus) as refused:
        browse(served, origin=origin)
    assert refused.value.response.status_code == 403


def test_a_program_without_origin_is_served(serve: Any, browse: Any) -> None:
    assert browse(serve(Board("run")), origin=None).wait_for("hello")["title"] == "run"


def test_a_dashboard_without_controls_changes_nothing(serve: Any, browse: Any) -> None:
    browser = browse(serve(recorded("argon")), token="anything")
    assert browser.wait_for("hello")["control"] == "none"
    browser.send(type="setpoint", id=1, device="argon", value=1, confirmed=True)
    answer = browser.wait_for("result")
    assert (answer["ok"], "read-only" in answer["text"]) == (False, True)


@pytest.mark.parametrize("token", [None, "", "wrong", 7, ["x"]])
def test_changes_are_refused_without_the_token(serve: Any, browse: Any, token: Any) -> None:
    controls = FakeControls()
    browser = browse(serve(recorded("argon"), controls), token=token)
    assert browser.wait_for("hello")["control"] == "locked"
    for number, kind in enumerate(("setpoint", "gas", "gases")):
        browser.send(type=kind, id=number, device="argon", value=1, gas="Ar", confirmed=True)
        answer = browser.wait_for("result", id=number)
        assert (answer["ok"], "token" in answer["text"]) == (False, True)
    assert controls.changes == []


@pytest.mark.parametrize("way", ["first message", "header", "later"])
def test_the_token_allows_confirmed_changes(serve: Any, browse: Any, way: str) -> None:
    controls = FakeControls()
    served = serve(recorded("argon"), controls)
    token = served.dashboard.token.text
    if way == "header":
        browser = browse(served, additional_headers={"Authorization": f"Bearer {token}"})
    else:
        browser = browse(served, token=token if way == "first message" else None)
    if way == "later":
        browser.wait_for("hello", control="locked")
        browser.send(type="hello", token=token)
    assert browser.wait_for("hello", control="granted")["devices"][0]["abilities"] == [
        "setpoint",
        "gas",
    ]
    browser.send(type="setpoint", id=1, device="argon", value=12.5)
    assert "not confirmed" in browser.wait_for("result", id=1)["text"]
    assert controls.changes == []
    browser.send(type="setpoint", id=2, device="argon", value=12.5, confirmed=True)
    assert browser.wait_for("result", id=2) == {
        "type": "result",
        "id": 2,
        "ok": True,
        "text": "argon has 12.5",
    }
    browser.send(type="gas", id=3, device="argon", gas="N2", confirmed=True)
    assert browser.wait_for("result", id=3)["ok"]
    browser.send(type="gases", id=4, device="argon")
    assert browser.wait_for("result", id=4)["gases"] == ["Ar", "N2"]
    assert controls.changes == [("argon", 12.5), ("argon", "N2")]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"device": "xenon", "value": 1}, "no such device"),
        ({"device": "argon", "value": "1"}, "not a number"),
        ({"device": "argon", "value": 1e300}, "not from"),
        ({"device": "argon"}, "not a number"),
        ({"device": "argon", "value": True}, "not a number"),
        ({"device": "argon", "value": -1}, "negative"),
    ],
)
def test_a_change_that_makes_no_sense_is_answered(
    serve: Any, browse: Any, message: dict[str, Any], reason: str
) -> None:
    controls = FakeControls()
    served = serve(recorded("argon"), controls)
    browser = browse(served, token=served.dashboard.token.text)
    browser.send(type="setpoint", id=1, confirmed=True, **message)
    answer = browser.wait_for("result")
    assert (answer["ok"], reason in answer["text"]) == (False, True)
    assert controls.changes == []


def test_a_change_under_way_is_finished_when_the_browser_leaves(serve: Any, browse: Any) -> None:
    controls = FakeControls()
    served = serve(recorded("argon"), controls)
    controls.hold = served.do(anyio.Event)
    leaving = browse(served, token=served.dashboard.token.text)
    staying = browse(served, token=served.dashboard.token.text)
    leaving.send(type="setpoint", id=1, device="argon", value=5, confirmed=True)
    leaving.wait_for("state")  # sent after the change was begun
    leaving.wait_for("state")
    leaving.socket.close()
    served.do(controls.hold.set)
    controls.hold = None
    staying.send(type="setpoint", id=2, device="argon", value=6, confirmed=True)
    assert staying.wait_for("result")["ok"]
    while len(controls.changes) < 2:
        staying.wait_for("state")
    assert sorted(controls.changes) == [("argon", 5), ("argon", 6)]


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "[]",
        "{}",
        '{"type": 1}',
        '{"type": "other"}',
        '{"type": "view"}',
        '{"type": "view", "id": 1, "curves": [["argon", "x"]], "width": 10, "span": -1}',
        '{"type": "view", "id": 1, "curves": [["argon", "x"]], "width": 10, "from": 5, "to": 5}',
        '{"type": "view", "id": 1, "curves": [["argon", "x"]], "width": 10, "span": NaN}',
        '{"type": "view", "id": 1, "curves": [["argon", "x"]], "width": 1e999, "span": 1}',
        '{"type": "view", "id": 1, "curves": ["argon"], "width": 10, "span": 1}',
        '{"type": "ack", "seq": 1' + "0" * 5000 + "}",
        "[" * 20_000,
    ],
)
def test_a_message_that_the_page_never_sends_closes_its_connection_only(
    serve: Any, browse: Any, text: str
) -> None:
    served = serve(recorded("argon"))
    bad, good = browse(served), browse(served)
    bad.socket.send(text)
    assert refusal(bad)[0] == 1008
    assert good.wait_for("state")["devices"]


def test_a_binary_message_closes_the_connection_and_the_reason_says_so(
    serve: Any, browse: Any
) -> None:
    bad = browse(serve(recorded("argon")))
    bad.socket.send(b"\x00")
    assert refusal(bad) == (1008, "the message is binary; send JSON as text")


@pytest.mark.parametrize(
    "text",
    [
        *(
            f'{{"type": "{kind}", "device": "argon", "value": 1, "id": {number}}}'
            for kind in ("setpoint", "hello")
            for number in (r'"\ud800"', f'"{"a" * 65}"', "[]", "1.5", "true", "1" + "0" * 400)
        ),
        r'{"type": "' + r"\udb40\udc01" * 20 + '"}',  # long once it is escaped
    ],
)
def test_what_a_browser_sends_raises_nothing_in_the_terminal(
    serve: Any, browse: Any, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    served = serve(recorded("argon"), FakeControls())
    bad = browse(served)
    bad.socket.send(text)
    assert refusal(bad)[0] == 1008
    served.close()
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


def test_the_name_of_no_gas_is_answered(
    serve: Any, browse: Any, caplog: pytest.LogCaptureFixture
) -> None:
    controls = FakeControls()
    served = serve(recorded("argon"), controls)
    browser = browse(served, token=served.dashboard.token.text)
    browser.send(type="gas", id="a", device="argon", gas="\ud800", confirmed=True)
    assert browser.wait_for("result", id="a")["ok"] is False
    assert controls.changes == []
    served.close()
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


def test_a_change_that_ends_after_its_connection_raises_nothing(
    serve: Any, browse: Any, caplog: pytest.LogCaptureFixture
) -> None:
    controls = FakeControls()
    served = serve(recorded("argon"), controls)
    controls.hold = served.do(anyio.Event)
    bad = browse(served, token=served.dashboard.token.text)
    bad.send(type="setpoint", id=1, device="argon", value=5, confirmed=True)
    bad.wait_for("state")  # sent after the change was begun
    bad.socket.send("no json")
    assert refusal(bad)[0] == 1008
    served.do(controls.hold.set)
    served.close()
    assert controls.changes == [("argon", 5)]
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


def test_the_token_is_answered_where_an_answer_is_asked_for(serve: Any, browse: Any) -> None:
    served = serve(recorded("argon"), FakeControls())
    browser = browse(served)
    browser.send(type="hello", id=1, token="wrong")
    answer = browser.wait_for("result", id=1)
    assert (answer["ok"], answer["text"]) == (False, "this is not the token of this run")
    browser.send(type="hello", id=2, token=served.dashboard.token.text)
    assert browser.wait_for("result", id=2)["ok"] is True
