"""Alarms that reach somebody: their states, and delivery to a web hook and a broker."""

from __future__ import annotations

import base64
import errno
import json
import math
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from penstock.record import SinkWriteError
from penstock.record.alarms import (
    AlarmBook,
    AlarmBookError,
    AlarmDelivery,
    MqttAlarms,
    Webhook,
)
from tests.python.integration.mosquitto import mosquitto
from tests.python.integration.webhooks import receiver

KEY = "argon/Mass_Flow/1"
SECRET = b"a secret of the tests"


def book(folder: Path, *names: str, **options: Any) -> AlarmBook:
    return AlarmBook(folder / "alarms.json", names, **options)


def state(alarms: AlarmBook) -> str:
    [entry] = alarms.entries()
    return entry.state


def types(alarms: AlarmBook, name: str = "hook") -> list[str]:
    return [event["type"].removeprefix("alarm.") for event in alarms.waiting(name)]


def test_the_states_of_an_alarm(tmp_path: Path) -> None:
    alarms = book(tmp_path, "hook")
    assert alarms.begin(KEY, "too high", 3.0) and not alarms.begin(KEY, "again", 4.0)
    assert state(alarms) == "unacknowledged"
    alarms.acknowledge(KEY, "ann")
    assert state(alarms) == "acknowledged"
    with pytest.raises(AlarmBookError, match="nothing to acknowledge"):
        alarms.acknowledge(KEY, "bob")
    assert alarms.end(KEY, "inside", 1.0) and not alarms.end(KEY, "inside", 1.0)
    assert state(alarms) == "normal"
    alarms.begin(KEY, "too high", 3.0)
    alarms.end(KEY, "inside", 1.0)
    assert state(alarms) == "returned"
    alarms.acknowledge(KEY, "ann")
    assert state(alarms) == "normal"
    told = ["begin", "acknowledge", "end", "begin", "end", "acknowledge"]
    assert types(alarms) == told
    assert [event["activation"] for event in alarms.waiting("hook")] == [1, 1, 1, 2, 2, 2]
    assert len({event["id"] for event in alarms.waiting("hook")}) == len(told)


def test_a_latched_alarm_stays_until_it_is_seen_and_reset(tmp_path: Path) -> None:
    alarms = book(tmp_path, latch=True)
    alarms.begin(KEY, "too high", 3.0)
    with pytest.raises(AlarmBookError, match="wait until it is inside"):
        alarms.reset(KEY, "ann")
    alarms.end(KEY, "inside", 1.0)
    with pytest.raises(AlarmBookError, match="acknowledge it first"):
        alarms.reset(KEY, "ann")
    alarms.acknowledge(KEY, "ann")
    assert state(alarms) == "latched"
    alarms.reset(KEY, "ann")
    assert state(alarms) == "normal"
    with pytest.raises(AlarmBookError, match="and not latched"):
        alarms.reset(KEY, "ann")


def test_a_shelved_alarm_is_told_to_nobody_for_its_time(tmp_path: Path) -> None:
    alarms = book(tmp_path, "hook")
    with pytest.raises(AlarmBookError, match="no alarm 'argon/Mass_Flow/1' has ever begun"):
        alarms.shelve(KEY, 60, "ann")
    alarms.begin(KEY, "too high", 3.0)
    alarms.shelve(KEY, 60, "ann")
    alarms.end(KEY, "inside", 1.0)
    alarms.begin(KEY, "too high", 3.0)
    assert types(alarms) == ["begin", "shelve"]
    assert alarms.end_shelves() == []
    alarms.unshelve(KEY, "ann")
    assert alarms.waiting("hook")[-1]["state"] == "unacknowledged"
    alarms.shelve(KEY, 1e-9, "ann")
    assert alarms.end_shelves() == [KEY]
    for seconds in (0, -1, 1e9, float("nan")):
        with pytest.raises(AlarmBookError, match="cannot be shelved for"):
            alarms.shelve(KEY, seconds, "ann")


def test_a_restart_begins_no_alarm_again_and_forgets_none(tmp_path: Path) -> None:
    book(tmp_path, "hook").begin(KEY, "too high", 3.0)
    alarms = book(tmp_path, "hook", "other")
    assert alarms.is_active(KEY)
    assert not alarms.begin(KEY, "too high", 3.0)
    assert (types(alarms), types(alarms, "other")) == (["begin"], [])
    assert alarms.end(KEY, "inside", 1.0)
    alarms.close()
    assert [each.state for each in book(tmp_path, "hook").entries()] == ["returned"]


def test_one_recorder_has_a_book_until_it_closes_it(tmp_path: Path) -> None:
    """Two would overwrite each other's acknowledgements: each has the content in memory."""
    (tmp_path / "link.json").symlink_to("alarms.json")
    (tmp_path / ".alarms.json.0123abcd.tmp").write_text("of a kill")
    first = book(tmp_path, "hook")
    first.begin(KEY, "too high", 3.0)
    for name in ("alarms.json", "link.json"):
        with pytest.raises(AlarmBookError, match=f"{name} is in use by another recorder"):
            AlarmBook(tmp_path / name, ())
    first.acknowledge(KEY, "ann")
    first.close()
    with pytest.raises(AlarmBookError, match="is closed"):
        first.end(KEY, "inside", 1.0)
    second = AlarmBook(tmp_path / "link.json", ["hook"])
    assert (state(second), types(second)) == ("acknowledged", ["begin", "acknowledge"])
    second.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alarms.json", "link.json"]


def test_a_kill_leaves_the_book_to_the_next_recorder(tmp_path: Path) -> None:
    program = (
        "import sys; from penstock.record.alarms import AlarmBook\n"
        "book = AlarmBook(sys.argv[1], ())\n"
        "book.begin(sys.argv[2], 'too high', 3.0); print(flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "alarms.json"), KEY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline()
        with pytest.raises(AlarmBookError, match="in use by another recorder"):
            book(tmp_path)
        other.kill()
    assert state(book(tmp_path)) == "unacknowledged"


def test_a_forked_child_does_not_give_the_book_of_its_parent_away(tmp_path: Path) -> None:
    program = (
        "import gc, os, sys, warnings; from penstock.record.alarms import AlarmBook\n"
        "warnings.simplefilter('ignore')  # of forks beside threads\n"
        "book = AlarmBook(sys.argv[1], ())\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    del book; gc.collect(); os._exit(0)\n"
        "os.waitpid(child, 0); print(flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "alarms.json")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline()
        with pytest.raises(AlarmBookError, match="in use by another recorder"):
            book(tmp_path)
        other.kill()


def test_a_folder_that_is_not_there_is_told_before_the_first_alarm(tmp_path: Path) -> None:
    with pytest.raises(AlarmBookError, match=r"alarms\.json cannot be used: .*create the folder"):
        book(tmp_path / "nowhere")


def test_what_a_person_asks_is_not_done_if_it_cannot_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alarms = book(tmp_path, "hook")
    alarms.begin(KEY, "too high", 3.0)

    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("penstock.record.alarms.alarm_book.put_file", refuse)
        for ask in (alarms.acknowledge, lambda key, by: alarms.shelve(key, 60, by)):
            with pytest.raises(AlarmBookError, match="cannot be written: No space left"):
                ask(KEY, "ann")
    assert (state(alarms), types(alarms)) == ("unacknowledged", ["begin"])
    alarms.acknowledge(KEY, "ann")
    assert state(alarms) == "acknowledged"


def test_what_waits_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.record.alarms.alarm_book._MOST_WAITING", 8)
    alarms = book(tmp_path, "hook")
    for _ in range(10):
        alarms.begin(KEY, "too high", 3.0)
        alarms.end(KEY, "inside", 1.0)
    waiting = alarms.waiting("hook")
    assert len(waiting) == 8
    assert waiting[-1]["activation"] == 10


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"name": "x", "entries": {"a": 1}}'])
def test_a_file_that_is_no_book_is_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / "alarms.json").write_text(text)
    with pytest.raises(AlarmBookError, match="is not an alarm book"):
        book(tmp_path)
    assert (tmp_path / "alarms.json").read_text() == text


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("whsec_" + base64.b64encode(SECRET).decode() + "\n")
    return path


def test_a_web_hook_gets_each_event_signed_with_one_identity(tmp_path: Path, secret: Path) -> None:
    alarms = book(tmp_path, "hook")
    with receiver(SECRET) as hook:
        hook.answers = [500, 302, 204]
        delivery = AlarmDelivery(alarms, {"hook": Webhook(hook.url, secret_file=secret)}, 0.01)
        delivery.start()
        alarms.begin(KEY, "too high", 3.0)
        delivery.look()
        first, second, third = hook.wait_for(3)
        assert first == second == third
        alarms.end(KEY, "inside", 1.0)
        assert delivery.close() == 0
    assert [body["type"] for _, body in hook.got] == ["alarm.begin"] * 3 + ["alarm.end"]
    data = hook.got[0][1]["data"]
    assert (data["alarm"], data["state"], data["value"]) == (KEY, "unacknowledged", 3.0)
    assert hook.got[0][0] != hook.got[3][0]
    assert ["takes no alarms" in each for each in delivery.said] == [True, False]


def test_what_was_not_taken_is_delivered_by_the_next_run(tmp_path: Path, secret: Path) -> None:
    alarms = book(tmp_path, "hook")
    with receiver(SECRET) as hook:
        port = int(hook.url.split(":")[2].split("/")[0])
    away = Webhook(hook.url, secret_file=secret)
    delivery = AlarmDelivery(alarms, {"hook": away}, 0.01)
    delivery.start()
    alarms.begin(KEY, "too high", 3.0)
    identity = alarms.waiting("hook")[0]["id"]
    assert delivery.close() == 1
    alarms.close()
    with receiver(SECRET, port) as hook:
        again = book(tmp_path, "hook")
        assert not again.begin(KEY, "too high", 3.0)  # it is the alarm of the former run
        delivery = AlarmDelivery(again, {"hook": Webhook(hook.url, secret_file=secret)}, 0.01)
        delivery.start()
        assert hook.wait_for(1) == [identity]
        assert delivery.close() == 0
        assert len(hook.got) == 1
    again.close()
    assert types(book(tmp_path, "hook")) == []


def test_a_receiver_that_is_gone_gets_no_more_attempts(tmp_path: Path, secret: Path) -> None:
    alarms = book(tmp_path, "hook")
    with receiver(SECRET) as hook:
        hook.answers = [410]
        delivery = AlarmDelivery(alarms, {"hook": Webhook(hook.url, secret_file=secret)}, 0.01)
        delivery.start()
        alarms.begin(KEY, "too high", 3.0)
        delivery.look()
        assert delivery.close() == 0
    assert len(hook.got) == 1
    assert "will not take" in delivery.said[0]


def test_a_web_hook_needs_a_secret_and_shows_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PENSTOCK_WEBHOOK_SECRET", raising=False)
    with pytest.raises(SinkWriteError, match="has no secret"):
        Webhook("https://lab.example/hook")
    (tmp_path / "secret").write_text("whsec_%%%")
    with pytest.raises(SinkWriteError, match="is not base64"):
        Webhook("https://lab.example/hook", secret_file=tmp_path / "secret")
    monkeypatch.setenv("PENSTOCK_WEBHOOK_SECRET", "plain")
    assert str(Webhook("https://lab.example/T0KEN")) == "https://lab.example:443"
    for url in ("ftp://lab/x", "https:///x", "https://me:secret@lab/x"):
        with pytest.raises(ValueError) as refused:
            Webhook(url)
        assert "secret@" not in str(refused.value)


@pytest.mark.slow
def test_a_broker_that_is_killed_gets_each_alarm_and_keeps_its_state(tmp_path: Path) -> None:
    alarms = book(tmp_path, "mqtt")
    with mosquitto() as broker:
        delivery = AlarmDelivery(alarms, {"mqtt": MqttAlarms(broker.url("lab"))}, 0.05)
        delivery.start()
        with broker.subscriber("lab/#") as subscriber:
            alarms.begin(KEY, "too high", 3.0)
            delivery.look()
            subscriber.wait_for(2)
        broker.kill()
        alarms.end(KEY, "inside", 1.0)
        delivery.look()
        broker.start()
        with broker.subscriber("lab/#") as subscriber:
            subscriber.wait_for(1)
            assert delivery.close(30) == 0
            found = [json.loads(payload) for _, topic, payload in subscriber.messages]
    assert {event["state"] for event in found} == {"returned"}
    assert any(topic == "lab/alarms/argon/Mass_Flow/1" for _, topic, _ in subscriber.messages)


@pytest.mark.slow
def test_a_device_with_a_slash_is_one_level_of_a_topic(tmp_path: Path) -> None:
    """As in the topics of its samples: who subscribes to ``alarms/+/+/+`` would else miss it."""
    alarms = book(tmp_path, "mqtt")
    with mosquitto() as broker:
        delivery = AlarmDelivery(alarms, {"mqtt": MqttAlarms(broker.url("lab"))}, 0.05)
        delivery.start()
        with broker.subscriber("lab/alarms/#") as subscriber:
            alarms.begin("oven/left/Temp/1", "too high", 3.0)
            delivery.look()
            subscriber.wait_for(1)
            assert delivery.close(30) == 0
    assert [topic for _, topic, _ in subscriber.messages] == ["lab/alarms/oven%2Fleft/Temp/1"]


def test_a_value_that_json_cannot_have_holds_up_no_alarm(tmp_path: Path, secret: Path) -> None:
    alarms = book(tmp_path, "hook")
    with receiver(SECRET) as hook:
        delivery = AlarmDelivery(alarms, {"hook": Webhook(hook.url, secret_file=secret)}, 0.01)
        delivery.start()
        alarms.begin(KEY, "Mass_Flow is inf SCCM, above 30 SCCM", math.inf)
        assert delivery.close() == 0
    [(_, body)] = hook.got
    assert (body["data"]["value"], "inf" in body["data"]["message"]) == (None, True)


def test_a_clock_that_is_set_ends_no_delivery_and_lengthens_no_shelf(
    tmp_path: Path, secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at the start of a machine without a clock of its own, whose network comes just then."""
    alarms = book(tmp_path, "hook")
    moments = [1e9]
    monkeypatch.setattr(time, "time", lambda: moments[0])
    alarms.begin(KEY, "too high", 3.0)
    moments[0] = 1.7e9
    with receiver(SECRET) as hook:
        hook.answers = [503]
        delivery = AlarmDelivery(alarms, {"hook": Webhook(hook.url, secret_file=secret)}, 0.01)
        delivery.start()
        first, second = hook.wait_for(2)
        assert first == second
        assert delivery.close() == 0
    alarms.shelve(KEY, 60, "ann")
    assert alarms.end_shelves() == []
    moments[0] = 1e9
    assert alarms.end_shelves() == [KEY]


def test_a_new_alarm_does_not_wait_for_the_pause_of_an_old_one(
    tmp_path: Path, secret: Path
) -> None:
    alarms = book(tmp_path, "hook")
    with receiver(SECRET) as hook:
        hook.answers = [503]
        delivery = AlarmDelivery(alarms, {"hook": Webhook(hook.url, secret_file=secret)}, 3600)
        delivery.start()
        alarms.begin(KEY, "too high", 3.0)
        delivery.look()
        hook.wait_for(1)
        alarms.end(KEY, "inside", 1.0)
        delivery.look()
        hook.wait_for(3)
        assert delivery.close() == 0
    assert [body["type"] for _, body in hook.got] == ["alarm.begin"] * 2 + ["alarm.end"]


@pytest.mark.parametrize("all_refused", [False, True])
def test_an_alarm_that_its_receiver_refuses_holds_up_no_other(
    tmp_path: Path, secret: Path, all_refused: bool
) -> None:
    """But where it refuses all, by a wrong secret say, none is given up."""
    alarms = book(tmp_path, "hook")
    alarms.begin(KEY, "too high", 3.0)
    alarms.end(KEY, "inside", 1.0)
    bad, good = (event["id"] for event in alarms.waiting("hook"))
    with receiver(SECRET) as hook:
        hook.answers = [400, 400, 400, 400 if all_refused else 204]
        delivery = AlarmDelivery(alarms, {"hook": Webhook(hook.url, secret_file=secret)}, 0.01)
        delivery.start()
        got = hook.wait_for(6 if all_refused else 4)
        assert delivery.close() == 0
    assert got[:4] == [bad, bad, bad, good]
    assert got[4:] == ([bad, good] if all_refused else [])
    assert any("will not take" in text for text in delivery.said) is not all_refused


def test_an_event_that_cannot_be_told_holds_up_no_other(tmp_path: Path, secret: Path) -> None:
    """As where somebody has edited the book."""
    alarms = book(tmp_path, "hook")
    alarms.begin(KEY, "too high", 3.0)
    alarms.close()
    content = json.loads((tmp_path / "alarms.json").read_text())
    content["waiting"]["hook"][0]["time"] = 1e300
    (tmp_path / "alarms.json").write_text(json.dumps(content))
    alarms = book(tmp_path, "hook")
    with receiver(SECRET) as hook:
        delivery = AlarmDelivery(alarms, {"hook": Webhook(hook.url, secret_file=secret)}, 0.01)
        delivery.start()
        alarms.end(KEY, "inside", 1.0)
        delivery.look()
        hook.wait_for(1)
        assert delivery.close() == 0
    assert [body["type"] for _, body in hook.got] == ["alarm.end"]
    assert "cannot be told of" in delivery.said[0]


@pytest.mark.parametrize("change", [{"id": None}, {"time": "yesterday"}, {"time": None}])
def test_a_notification_without_identity_or_time_is_told_when_the_book_is_opened(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    alarms = book(tmp_path, "hook")
    alarms.begin(KEY, "too high", 3.0)
    alarms.close()
    content = json.loads((tmp_path / "alarms.json").read_text())
    content["waiting"]["hook"][0] |= change
    (tmp_path / "alarms.json").write_text(json.dumps(content))
    with pytest.raises(AlarmBookError, match=r"is not an alarm book .*has the id"):
        book(tmp_path, "hook")


class Unclosable:
    """Takes nothing, and cannot be closed."""

    def __str__(self) -> str:
        return "nowhere"

    async def deliver(self, event: dict[str, Any]) -> None:
        raise RuntimeError("a defect")

    async def close(self) -> None:
        raise RuntimeError("another defect")


def test_the_end_of_deliveries_is_reached_whatever_a_destination_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alarms = book(tmp_path, "hook", "other")
    delivery = AlarmDelivery(alarms, {"hook": Unclosable(), "other": Unclosable()}, 0.01)
    monkeypatch.setattr(alarms, "waiting", lambda name: [{}] if name == "hook" else [])
    delivery.start()
    delivery.look()
    assert delivery.close() == 1
    assert "alarms" not in [thread.name for thread in threading.enumerate()]
    assert list(delivery.said) == [
        "nowhere gets no more alarms of this run: KeyError: 'id'",
        "nowhere cannot be closed: RuntimeError: another defect",
        "nowhere cannot be closed: RuntimeError: another defect",
    ]


def test_a_path_with_blanks_and_letters_is_one_path(tmp_path: Path, secret: Path) -> None:
    alarms = book(tmp_path, "hook")
    with receiver(SECRET) as hook:
        url = hook.url.replace("/hook?x=1", "/a b/%2Fü?to=ann,bob&x=[1]")
        delivery = AlarmDelivery(alarms, {"hook": Webhook(url, secret_file=secret)}, 0.01)
        delivery.start()
        alarms.begin(KEY, "too high", 3.0)
        assert delivery.close() == 0
    assert hook.targets == ["/a%20b/%2F%C3%BC?to=ann,bob&x=[1]"]
