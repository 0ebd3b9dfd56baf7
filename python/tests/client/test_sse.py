"""Server-sent events, whatever the pieces are in which they come."""

from __future__ import annotations

import pytest

from tidemill.client.sse import Frame, FrameTooLarge, Reader

STREAM = (
    b"\xef\xbb\xbf: ping\n\n"
    b'id: 5-0\r\nevent: a\r\ndata: {"x":\r\ndata: "\xc3\xa4\xf0\x9f\x8c\x8a"}\r\n\r\n'
    b"data:no blank\r\r"
    b"event: without data\n\n"
    b"data\n\n"
    b"retry: 5\nunknown: field\nid: with \0\ndata:  two blanks\n\n"
    b"data: without an end"
)
FRAMES = [
    Frame(comment="ping"),
    Frame("a", '{"x":\n"ä🌊"}', "5-0"),
    Frame(data="no blank"),
    Frame(data=""),
    Frame(data=" two blanks"),
]


def read(pieces: list[bytes]) -> list[Frame]:
    reader = Reader()
    return [frame for piece in pieces for frame in reader.feed(piece)]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 16, len(STREAM)])
def test_frames_are_the_same_in_pieces_of_any_size(size: int) -> None:
    pieces = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    assert read(pieces) == FRAMES


def test_every_cut_in_two_gives_the_same_frames() -> None:
    for at in range(len(STREAM)):
        assert read([STREAM[:at], b"", STREAM[at:]]) == FRAMES, at


def test_a_line_feed_after_a_carriage_return_of_the_piece_before_ends_no_frame() -> None:
    assert read([b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n"]) == [Frame(data="a\nb")]


def test_an_id_holds_for_its_own_frame_only() -> None:
    assert [frame.id for frame in read([b"id: 1\ndata: a\n\ndata: b\n\nid:\ndata: c\n\n"])] == ["1", None, ""]


def test_bytes_that_are_no_utf_8_are_replaced() -> None:
    assert read([b"data: a\xffb\n\n"]) == [Frame(data="a\ufffdb")]


@pytest.mark.parametrize("piece", [b"data: " + b"x" * 40, b"data: x\n", b": " + b"x" * 40])
def test_a_frame_over_the_bound_is_refused(piece: bytes) -> None:
    reader = Reader(frame_bytes_max=32)
    with pytest.raises(FrameTooLarge, match="32 bytes"):
        list(map(reader.feed, [piece] * 8))


def test_the_bound_is_one_of_a_frame_and_not_of_the_stream() -> None:
    reader = Reader(frame_bytes_max=32)
    frames = [frame for _ in range(100) for frame in reader.feed(b"data: 0123456789\n\n: ping\n\n")]
    assert len(frames) == 200


def test_the_bound_is_that_of_one_frame_however_many_come_in_a_piece() -> None:
    frame = b"data: 1234567890\n\n"
    assert len(Reader(len(frame)).feed(frame * 50)) == 50
    reader = Reader(len(frame))
    assert [len(reader.feed(frame[:9] if half else frame[9:])) for half in (True, False) * 5] == [0, 1] * 5
    for fits, one_more in (
        ([], b"data: 1234567890123\n\n" + frame),
        ([b"data: 123456"], b"7890123"),
        ([frame[:15]], b"\nid: 1"),
    ):
        reader = Reader(len(frame))
        assert [reader.feed(piece) for piece in fits] == [[] for _ in fits]
        with pytest.raises(FrameTooLarge):
            reader.feed(one_more)
    # A comment inside a frame takes nothing off it.
    reader = Reader(len(frame))
    reader.feed(b"data: 12345\n: ping\n")
    with pytest.raises(FrameTooLarge):
        reader.feed(b"data: 67890\n")
