from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_deploy.measure.sample import Cycles
from dflash_deploy.measure.stream import StreamReader, reported

USAGE = {"prompt_tokens": 9, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}


def event(**fields) -> bytes:
    return b"data: " + json.dumps({"choices": [], **fields}).encode() + b"\n\n"


def piece(**delta) -> bytes:
    return event(choices=[{"index": 0, "delta": delta, "finish_reason": None}])


def read(*chunks: bytes) -> StreamReader:
    reader = StreamReader()
    for number, chunk in enumerate(chunks, 1):
        reader.feed(chunk, float(number))
    return reader


DONE = b"data: [DONE]\n\n"


@pytest.mark.parametrize("key", ["content", "reasoning", "reasoning_content"])
def test_the_first_token_is_the_first_content_or_reasoning(key):
    reader = read(
        b": keep-alive\n\n", piece(role="assistant", content=""), piece(**{key: "Hm"}),
        piece(content="more"), event(usage=USAGE), DONE,
    )  # fmt: skip
    assert reader.first == 3
    assert reader.fault is None
    assert (reader.usage.completion_tokens, reader.cached_tokens) == (5, 4)


def test_a_completion_of_token_ids_has_tokens_without_text():
    first = event(choices=[{"text": "", "token_ids": None}])
    assert read(first, event(choices=[{"text": "", "token_ids": [7]}])).first == 2


@pytest.mark.parametrize(
    ("chunks", "fault"),
    [
        ([piece(content="a"), event(usage=USAGE)], "the answer broke off"),
        ([piece(content="a"), DONE], "the server sent no usage: its tokens cannot be counted"),
        ([event(usage=USAGE), DONE], "an answer without a token"),
        ([piece(content="a"), event(usage=USAGE | {"completion_tokens": 0}), DONE], "an answer without a token"),
        ([piece(content="a"), event(error={"message": "out of blocks"}), DONE], "the server stopped answering: out of blocks"),
        ([b"data: {nonsense\n\n", DONE], "not JSON: {nonsense"),
        ([piece(content="a"), event(choices=[{"delta": {}, "finish_reason": "abort"}]), event(usage=USAGE), DONE], "the server ended the answer: abort"),
    ],
)  # fmt: skip
def test_what_is_no_whole_answer_says_why(chunks, fault):
    assert read(*chunks).fault == fault


def test_a_text_that_speaks_of_usage_is_not_taken_for_it():
    reader = read(
        piece(content="a"), piece(content='say "usage": {"x": 1} and "error": {"y"}'), DONE
    )
    assert reader.usage is None
    assert reader.error is None


@given(st.lists(st.integers(1, 40), max_size=30))
def test_chunks_may_be_cut_anywhere(sizes):
    whole = piece(content="a") + piece(content="ü") + event(usage=USAGE, metrics=None) + DONE
    chunks, at = [], 0
    for size in sizes:
        chunks.append(whole[at : at + size])
        at += size
    reader = read(*chunks, whole[at:])
    assert reader.fault is None
    assert reader.usage.completion_tokens == 5


def test_the_engines_own_reports():
    ours = {
        "speculative_decoding": {
            "num_spec_steps": 4,
            "num_draft_tokens": 60,
            "num_accepted_draft_tokens": 9,
        }
    }
    assert reported(ours, None) == Cycles(4, 60, 9)
    theirs = {"spec_verify_ct": 4, "spec_num_correct_drafts": 8, "spec_num_proposed_drafts": 28}
    assert reported(None, {"spec_tokens_details": theirs}) == Cycles(4, 28, 8)
    old = {"spec_verify_ct": 4, "spec_accept_length": 3.5}
    assert reported(None, {"spec_tokens_details": old}) == Cycles(4, 0, 10)
    assert reported({"speculative_decoding": None}, {}) is None
