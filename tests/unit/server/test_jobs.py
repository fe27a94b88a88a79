import json

import pytest

from dflash_deploy.server.api_error import ApiError
from dflash_deploy.server.jobs import Intake
from dflash_deploy.server.wire import parse_chat, parse_completion
from dflash_deploy.speculative.types import Sampling
from tests.unit.server.fakes import EOS, ByteText


@pytest.fixture
def text():
    return ByteText()


@pytest.fixture
def intake(text):
    return Intake(("m",), 32, text, {"enable_thinking": True, "style": "short"})


def chat(intake, **fields):
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}
    return intake.chat_job(parse_chat(json.dumps(body).encode()))


def completion(intake, prompt, **fields):
    body = {"model": "m", "prompt": prompt, **fields}
    return intake.completion_job(parse_completion(json.dumps(body).encode()))


def test_a_request_that_says_nothing_gets_the_models_defaults_and_the_contexts_rest(intake):
    job = chat(intake)
    assert job.prompt_ids == tuple(b"user: hi\n")
    assert job.sampling == Sampling(23, 0.5, 1.0, 7, None, frozenset({EOS}))
    assert job.speculate


def test_a_request_that_says_something_gets_it(intake):
    job = chat(
        intake,
        max_tokens=9,
        max_completion_tokens=5,
        temperature=0,
        top_p=0.9,
        top_k=-1,
        seed=3,
        stop="x",
        stop_token_ids=[7],
        ignore_eos=True,
        speculative=False,
    )
    assert job.sampling == Sampling(5, 0.0, 0.9, 0, 3, frozenset({7}))
    assert (job.stops, job.speculate) == (("x",), False)


def test_template_options_merge_and_the_request_wins(intake, text):
    chat(intake, chat_template_kwargs={"enable_thinking": False}, reasoning_effort="low")
    assert text.options == {"enable_thinking": False, "style": "short", "reasoning_effort": "low"}
    chat(intake)
    assert text.options == {"enable_thinking": True, "style": "short"}


def test_a_completion_gets_16_tokens_or_what_is_left(intake):
    assert completion(intake, "abc").sampling.max_new_tokens == 16
    assert completion(intake, "a" * 30).sampling.max_new_tokens == 2


@pytest.mark.parametrize(
    ("prompt", "fields", "param", "code"),
    [
        ("a" * 32, {}, "prompt", "context_length_exceeded"),
        ("a" * 31, {"max_tokens": 2}, "max_tokens", "context_length_exceeded"),
        ("", {}, "prompt", None),
        ([], {}, "prompt", None),
        ([1, 257], {}, "prompt[1]", None),
        ([-1], {}, "prompt[0]", None),
    ],
)
def test_prompts_that_cannot_be_decoded_are_refused(intake, prompt, fields, param, code):
    with pytest.raises(ApiError) as caught:
        completion(intake, prompt, **fields)
    assert (caught.value.status, caught.value.param, caught.value.code) == (400, param, code)


def test_a_long_chat_is_refused_with_the_numbers(intake):
    with pytest.raises(ApiError, match="32 tokens, but 9 tokens of prompt and 24 of answer"):
        chat(intake, max_tokens=24)


def test_an_unknown_name_says_what_is_served(intake):
    with pytest.raises(ApiError, match="`x` is not served here; this server answers to: m") as no:
        intake.check_name("x")
    assert (no.value.status, no.value.code) == (404, "model_not_found")
