"""`dflash chat --compare`: what is said of two texts, by a server that can decode both ways."""

from __future__ import annotations

import pytest

from dflash_deploy.cli._compared import apart
from dflash_deploy.cli._conversation import converse, endpoint_at, shorter
from dflash_deploy.cli._one_answer import Style, Turn
from dflash_deploy.measure.lossless import Token
from dflash_deploy.speculative.types import Chance
from tests.unit.server import fakes
from tests.unit.server.fakes import EOS, ScriptedDecoder, running


class Apart(ScriptedDecoder):
    """With the draft the fourth letter is another."""

    def generate(self, prompt_ids, sampling, *, speculate=True):
        self.script = lambda *_: [*(b"abcxyz and on" if speculate else b"abcdef and on"), EOS]
        return super().generate(prompt_ids, sampling, speculate=speculate)


def compared(capsys, monkeypatch, gap, temperature=0.0):
    """The last line, where `x` is so many nats behind `d`."""
    monkeypatch.setattr(
        fakes, "_chance", lambda token, _: Chance(-0.5, ((token, -0.5), (ord("x"), -0.5 - gap)))
    )
    with running(Apart(delay=0.002)) as server:
        style = Style("hello", True, None, None, temperature, 64)
        converse(endpoint_at(server.url, None), style, thinking_key=None)
        asked = len(server.decoder.samplings)
    return " ".join(capsys.readouterr().err.split()), asked


def test_a_near_tie_is_told_from_another_text_by_its_cost(capsys, monkeypatch):
    said, _ = compared(capsys, monkeypatch, 0.02)
    assert "another text from a near tie on, of 0.02 nats" in said
    said, _ = compared(capsys, monkeypatch, 1.5)
    assert "ANOTHER TEXT: it cost 1.5 nats" in said


def test_sampled_texts_may_differ_and_are_not_asked_for_again(capsys, monkeypatch):
    said, asked = compared(capsys, monkeypatch, 1.5, temperature=0.8)
    assert "sampled, so the texts may differ" in said
    assert asked == 2


@pytest.mark.parametrize(
    ("top", "dflash", "said"),
    [
        ({"a": -0.1, "b": -0.6}, "c", "ANOTHER TEXT, and nobody can tell"),
        ({}, "b", "ANOTHER TEXT, and nobody can tell"),
        ({"a": -0.1, "b": -0.6}, "b", "another text from a near tie on, of 0.5 nats"),
    ],
)
def test_what_nobody_can_tell_is_no_near_tie(top, dflash, said):
    plain = Turn("a", 1, 1.0, None, (Token("a", -0.1, top),))
    assert apart(plain, Turn(dflash, 1, 1.0, 2.0)).startswith(said)


def test_an_answer_as_long_as_the_context_allows_is_asked_for_once():
    talk = [{"role": "user", "content": "a"}] * 3
    assert list(shorter(talk, None)) == [(talk, None), (talk[2:], None)]
    assert [longest for _, longest in shorter(talk, 9)] == [9, None, 9, None]
