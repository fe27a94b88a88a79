from __future__ import annotations

import io
import os

import pytest

from dflash_deploy.launch.output import KEPT_LINES, Redactor, Tail, pump


def run_pump(data: bytes, target: io.RawIOBase | io.BytesIO | None, *secrets: bytes) -> Tail:
    source, sink = os.pipe()
    os.write(sink, data)
    os.close(sink)
    tail = Tail()
    pump(source, target, tail, secrets)  # type: ignore[arg-type]
    return tail


def test_bytes_pass_unchanged_and_lines_are_kept() -> None:
    out = io.BytesIO()

    tail = run_pump(b"one\ntwo \xff\xfe\r 10%\r 20%\nlast", out)

    assert out.getvalue() == b"one\ntwo \xff\xfe\r 10%\r 20%\nlast"
    assert tail.lines == ("one", "two ��", " 10%", " 20%", "last")


def test_only_the_last_lines_are_kept() -> None:
    tail = run_pump(b"".join(b"%d\n" % i for i in range(KEPT_LINES + 150)), None)

    assert len(tail.lines) == KEPT_LINES
    assert tail.lines[-1] == str(KEPT_LINES + 149)


class Broken(io.BytesIO):
    def write(self, _: object) -> int:
        raise BrokenPipeError


class Closed(io.BytesIO):
    def write(self, _: object) -> int:
        raise ValueError("I/O operation on closed file")


@pytest.mark.parametrize("target", [Broken(), Closed()])
def test_a_target_that_is_gone_does_not_stop_the_copy(target: io.BytesIO) -> None:
    assert run_pump(b"a\nb\n", target).lines == ("a", "b")


@pytest.mark.parametrize("cut", range(len("key=s3cret!")))
def test_a_secret_is_hidden_wherever_the_chunks_are_cut(cut: int) -> None:
    redactor = Redactor([b"s3cret"])
    data = b"key=s3cret!"

    passed = redactor.feed(data[:cut]) + redactor.feed(data[cut:]) + redactor.end()

    assert passed == b"key=***!"


def test_what_only_begins_like_a_secret_comes_out_in_the_end() -> None:
    redactor = Redactor([b"s3cret"])

    assert redactor.feed(b"s3c") == b""
    assert redactor.feed(b"ond") == b"s3cond"
    assert redactor.feed(b"s3") + redactor.end() == b"s3"


def test_secrets_are_hidden_in_the_kept_lines_too() -> None:
    out = io.BytesIO()

    tail = run_pump(b"api_key='s3cret'\n", out, b"s3cret")

    assert out.getvalue() == b"api_key='***'\n"
    assert tail.lines == ("api_key='***'",)


def test_a_line_without_end_does_not_grow_for_ever() -> None:
    tail = Tail()
    for _ in range(64):
        tail.feed(b"x" * 16384)
    tail.end()

    assert len(tail.lines[0]) <= 64 * 1024
