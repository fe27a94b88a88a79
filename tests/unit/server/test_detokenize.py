import random

import pytest

from dflash_deploy.server.detokenize import LONGEST_WAIT, Detokenizer, StopStrings
from tests.unit.server.fakes import EOS, ByteText

decode = ByteText().decode


def pieces(ids):
    detokenizer = Detokenizer(decode)
    return [*(detokenizer.push(i) for i in ids), detokenizer.flush()]


@pytest.mark.parametrize("text", ["plain", "é", "日本語", "a👨‍👩‍👧b", "\ufffd!", "", "x\ufffd"])
def test_pieces_add_up_and_never_split_a_character(text):
    out = pieces(text.encode())
    assert "".join(out) == text
    assert all("\ufffd" not in piece for piece in out) or "\ufffd" in text


def test_random_bytes_add_up_to_what_one_decoding_gives():
    # A run of noise longer than the wait may break elsewhere: no longer run here.
    source = random.Random(5)
    for _ in range(200):
        ids = [source.choice([65, 0xC3, 0xA9, 0xE2, 0x82, 0xAC, EOS, 32]) for _ in range(6)]
        assert "".join(pieces(ids)) == decode(ids)


def test_half_a_character_at_the_end_is_shown_at_the_end():
    out = pieces([65, 0xE2, 0x82])
    assert out == ["A", "", "", "\ufffd"]


def test_noise_is_not_held_for_ever():
    detokenizer = Detokenizer(decode)
    shown = "".join(detokenizer.push(0xFF) for _ in range(10 * LONGEST_WAIT))
    assert len(shown) == 10 * LONGEST_WAIT


def test_a_leading_space_that_only_the_first_word_loses_comes_back():
    words = {1: "▁hello", 2: "▁world", 3: "!"}

    def sentencepiece(ids):
        return "".join(words[i] for i in ids).replace("▁", " ").removeprefix(" ")

    detokenizer = Detokenizer(sentencepiece)
    assert [detokenizer.push(i) for i in (1, 2, 3, 2)] == ["hello", " world", "!", " world"]


def test_special_tokens_have_no_text_and_disturb_nothing():
    assert "".join(pieces([65, EOS, EOS, 0xC3, 0xA9, EOS, 66])) == "AéB"


def shares(ids):
    """The characters of each token, in order, as they are told while text comes and at the end."""
    detokenizer, out = Detokenizer(decode), []
    for token in ids:
        detokenizer.push(token)
        out.extend(detokenizer.shares)
    detokenizer.flush()
    return [*out, *detokenizer.shares]


@pytest.mark.parametrize(
    ("ids", "told"),
    [
        (b"abc", [1, 1, 1]),
        ("aé€b".encode(), [1, 0, 1, 0, 0, 1, 1]),
        ("👩‍👩".encode(), [0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 1]),
        ([65, EOS, 0xC3, EOS, 0xA9, EOS], [1, 0, 0, 0, 1, 0]),
        ([65, 0xE2, 0x82], [1, 1, 0]),  # half a character is all that came
        ([], []),
    ],
)
def test_a_character_is_the_token_s_that_completes_it(ids, told):
    assert shares(ids) == told


def test_text_before_half_a_character_is_its_own_token_s():
    # byte-level vocabularies have tokens that end in the middle of a character
    words = {1: b"x\xc3", 2: b"\xa9y", 3: b"z"}
    detokenizer = Detokenizer(lambda ids: b"".join(words[i] for i in ids).decode(errors="replace"))
    told = [(detokenizer.push(i), detokenizer.shares) for i in (1, 2, 3)]
    assert told == [("", ()), ("xéy", (1, 2)), ("z", (1,))]


def test_noise_has_a_token_for_each_of_its_characters():
    source = random.Random(7)
    for _ in range(200):
        ids = [source.choice([65, 0xC3, 0xA9, 0xE2, 0x82, 0xFF, EOS]) for _ in range(40)]
        told = shares(ids)
        assert len(told) == len(ids)
        assert sum(told) == len("".join(pieces(ids)))


def stopped(stops, parts):
    matcher = StopStrings(stops)
    out = []
    for part in parts:
        out.append(matcher.push(part))
        if matcher.hit:
            return out, True
    return [*out, matcher.flush()], False


@pytest.mark.parametrize(
    ("stops", "parts", "text", "hit"),
    [
        ((), ["a", "b"], "ab", False),
        (("END",), ["a", "E", "N", "D", "b"], "a", True),
        (("END",), ["a", "E", "N", "x"], "aENx", False),
        (("END",), ["aE", "EN", "Dx"], "aE", True),
        (("END",), ["abEN"], "abEN", False),
        (("aab",), ["aa", "aab"], "aa", True),
        (("yz", "xyzzy"), ["x", "y", "z"], "x", True),
        (("\n\n", "."), ["a\n", "b.c\n\n"], "a\nb", True),
        (("b", "ab"), ["ab"], "", True),
    ],
)
def test_text_ends_before_the_first_stop_string(stops, parts, text, hit):
    out, was_hit = stopped(stops, parts)
    assert ("".join(out), was_hit) == (text, hit)


def test_the_beginning_of_a_stop_string_is_held_back_until_it_is_none():
    matcher = StopStrings(["END"])
    assert [matcher.push(part) for part in ("aE", "N", "E")] == ["a", "", "EN"]
