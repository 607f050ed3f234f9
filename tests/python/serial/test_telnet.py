"""The telnet layer: streams split at any position, and any bytes from a peer."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.serial._rfc2217_protocol import (
    LONGEST_SUBNEGOTIATION,
    Command,
    Event,
    Negotiation,
    Negotiator,
    Option,
    Subnegotiation,
    TelnetDecoder,
    Verb,
    escape,
    subnegotiation,
)

commands = st.sampled_from([241, 242, 243, 244, 245, 246, 247, 248, 249]).map(Command)
events = st.one_of(
    st.binary(min_size=1, max_size=30),
    commands,
    st.builds(Negotiation, st.sampled_from(Verb), st.integers(0, 255)),
    st.builds(Subnegotiation, st.integers(0, 255), st.binary(max_size=20)),
)


def on_the_wire(event: Event) -> bytes:
    if isinstance(event, bytes):
        return escape(event)
    if isinstance(event, Command):
        return bytes((255, event.code))
    if isinstance(event, Negotiation):
        return bytes((255, event.verb, event.option))
    return subnegotiation(event.option, event.payload)


def joined(found: list[Event]) -> list[Event]:
    """Return the events with adjacent pieces of data joined, to compare different chunkings."""
    result: list[Event] = []
    for event in found:
        if isinstance(event, bytes) and result and isinstance(result[-1], bytes):
            result[-1] += event
        else:
            result.append(event)
    return result


def decode(stream: bytes, cuts: list[int]) -> list[Event]:
    decoder = TelnetDecoder()
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    found: list[Event] = []
    for start, end in itertools.pairwise(places):
        found += decoder.feed(stream[start:end])
    return found


@given(st.lists(events), st.lists(st.integers(0, 10_000)))
def test_encoded_stream_is_decoded_at_any_chunking(sent: list[Event], cuts: list[int]) -> None:
    stream = b"".join(map(on_the_wire, sent))
    assert joined(decode(stream, cuts)) == joined(sent)


@settings(max_examples=300)
@given(
    st.one_of(
        st.binary(max_size=300),
        # Bytes with a meaning, more frequent than in random data.
        st.lists(st.sampled_from([255, 255, 250, 240, 251, 252, 253, 254, 44, 0, 65])).map(bytes),
    ),
    st.lists(st.integers(0, 10_000)),
)
def test_any_bytes_are_accepted_and_chunking_changes_nothing(
    stream: bytes, cuts: list[int]
) -> None:
    assert joined(decode(stream, cuts)) == joined(decode(stream, []))


@given(st.binary(max_size=200))
def test_decoder_resynchronizes_after_any_bytes(nonsense: bytes) -> None:
    # IAC SE ends any open subnegotiation; at most a verb or an IAC is still incomplete.
    decoder = TelnetDecoder()
    list(decoder.feed(nonsense + b"\x00\x00\xff\xf0\x00\xff\xf0"))
    assert list(decoder.feed(b"data")) == [b"data"]


def test_data_is_passed_on_in_one_piece() -> None:
    assert list(TelnetDecoder().feed(b"a\xff\xffb" * 100)) == [b"a\xffb" * 100]


def test_unterminated_subnegotiation_ends_the_decoding_in_bounded_memory() -> None:
    decoder = TelnetDecoder()
    assert list(decoder.feed(b"before\xff\xfa\x2c")) == [b"before"]
    assert list(decoder.feed(bytes(LONGEST_SUBNEGOTIATION))) == []
    assert not decoder.limit_exceeded
    assert list(decoder.feed(bytes(1))) == []
    assert decoder.limit_exceeded
    assert len(decoder._payload) == 0
    assert list(decoder.feed(b"\xff\xf0after")) == []


def test_subnegotiation_of_maximum_length_is_complete() -> None:
    payload = bytes(LONGEST_SUBNEGOTIATION)
    assert list(TelnetDecoder().feed(subnegotiation(7, payload))) == [Subnegotiation(7, payload)]


def test_aborted_subnegotiation_does_not_affect_the_next() -> None:
    stream = b"\xff\xfa\x2c\x01half" + bytes((255, Verb.WILL, Option.BINARY)) + b"data"
    assert list(TelnetDecoder().feed(stream)) == [
        Negotiation(Verb.WILL, Option.BINARY),
        b"data",
    ]


ALL = frozenset({Option.BINARY, Option.COM_PORT})
NONE: frozenset[int] = frozenset()


def exchange(a: Negotiator, b: Negotiator, first: bytes, second: bytes = b"") -> int:
    """Pass messages both ways until neither side has any left; return their number."""
    decoders = TelnetDecoder(), TelnetDecoder()
    for_b, for_a = first, second
    count = 0
    while for_a or for_b:
        count += 1
        assert count < 20, "the negotiation does not end"
        answers = b"".join(
            b.receive(event) for event in decoders[1].feed(for_b) if isinstance(event, Negotiation)
        )
        for_b = b"".join(
            a.receive(event) for event in decoders[0].feed(for_a) if isinstance(event, Negotiation)
        )
        for_a = answers
    return count


def test_option_that_both_sides_want_is_agreed() -> None:
    client, server = Negotiator(ALL, ALL), Negotiator(ALL, ALL)
    exchange(client, server, client.start(ALL, ALL), server.start(NONE, ALL))
    for side in (client, server):
        assert side.is_agreed(Option.COM_PORT)
        assert side.is_agreed(Option.BINARY)
        assert not side.is_refused(Option.COM_PORT)


def test_option_unknown_to_one_side_is_refused() -> None:
    client, server = Negotiator(ALL, ALL), Negotiator(NONE, NONE)
    exchange(client, server, client.start(ALL, NONE))
    assert client.is_refused(Option.COM_PORT)
    assert not client.is_agreed(Option.COM_PORT)


def test_agreed_option_can_be_disabled() -> None:
    side = Negotiator(ALL, ALL)
    assert side.receive(Negotiation(Verb.DO, Option.BINARY)) == bytes((255, Verb.WILL, 0))
    assert side.receive(Negotiation(Verb.DO, Option.BINARY)) == b""
    assert side.receive(Negotiation(Verb.DONT, Option.BINARY)) == bytes((255, Verb.WONT, 0))
    assert side.receive(Negotiation(Verb.DONT, Option.BINARY)) == b""
    assert not side.is_agreed(Option.BINARY)


options = st.frozensets(st.sampled_from([0, 1, 3, 44, 99]))


@given(options, options, options, options, st.booleans())
def test_negotiation_between_any_two_sides_terminates(
    offer_a: frozenset[int],
    ask_a: frozenset[int],
    offer_b: frozenset[int],
    ask_b: frozenset[int],
    both_start: bool,
) -> None:
    a, b = Negotiator(offer_a, ask_a), Negotiator(offer_b, ask_b)
    second = b.start(offer_b, ask_b) if both_start else b""
    exchange(a, b, a.start(offer_a, ask_a), second)
    for option in (offer_a & ask_b) | (ask_a & offer_b):
        assert a.is_agreed(option)
        assert b.is_agreed(option)
