import json

import pytest

from dflash_deploy.server.api_error import ApiError
from dflash_deploy.server.prompts import prompt_of, template_messages
from dflash_deploy.server.wire import REFUSED, parse_chat, parse_completion

HELLO = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def chat(**fields):
    return parse_chat(json.dumps({**HELLO, **fields}).encode())


def refusal(**fields):
    with pytest.raises(ApiError) as caught:
        template_messages(chat(**fields))
    assert caught.value.status == 400
    return caught.value


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": -1}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_k": -2}, "top_k"),
        ({"top_k": 10**30}, "top_k"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_completion_tokens": True}, "max_completion_tokens"),
        ({"seed": 2**70}, "seed"),
        ({"stop": ["a", ""]}, "stop[1]"),
        ({"stop": ["a"] * 17}, "stop"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"speculative": 1}, "speculative"),
        ({"chat_template_kwargs": []}, "chat_template_kwargs"),
        ({"model": None}, "model"),
        ({"messages": "hi"}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 1}]}, "messages[0].content"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            "messages[0].content[0].type",
        ),
        (
            {"messages": [{"role": "assistant", "content": None, "tool_calls": [{}]}]},
            "messages[0].tool_calls",
        ),
    ],
)
def test_what_is_wrong_is_named(fields, param):
    error = refusal(**fields)
    assert error.param == param
    assert param in error.message or "supported" in error.message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n", 2),
        ("tools", [{"type": "function"}]),
        ("tool_choice", "auto"),
        ("response_format", {"type": "json_object"}),
        ("presence_penalty", 0.5),
        ("logit_bias", {"5": 1}),
        ("echo", True),
        ("modalities", ["text", "audio"]),
    ],
)
def test_what_would_change_the_answer_is_refused_not_ignored(name, value):
    error = refusal(**{name: value})
    assert (error.param, error.code) == (name, "unsupported_parameter")


def test_neutral_values_and_unknown_fields_pass():
    neutral = {name: values[0] for name, values in REFUSED.items() if values}
    nulls = {name: None for name in REFUSED if name not in neutral}
    assert chat(**(nulls | neutral), user="me", novelty={"a": 1}) == chat()
    assert chat(tools=[], logit_bias={}, suffix="") == chat()


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"model": NaN}', b"[" * 100_000])
def test_what_is_not_json_is_refused(body):
    with pytest.raises(ApiError, match="not JSON") as caught:
        parse_chat(body)
    assert (caught.value.status, caught.value.code) == (400, "invalid_json")


def test_json_that_is_no_object_is_refused():
    with pytest.raises(ApiError, match="not a JSON object"):
        parse_chat(b"[]")


def test_a_missing_field_is_said_to_be_missing():
    with pytest.raises(ApiError, match="`messages` is missing") as caught:
        parse_chat(b'{"model": "m"}')
    assert caught.value.param == "messages"


def test_text_parts_are_joined_and_names_kept():
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    body = chat(
        messages=[
            {"role": "system", "content": "s"},
            {"role": "user", "content": parts, "name": "bob"},
            {"role": "assistant", "content": None},
        ]
    )
    assert template_messages(body) == [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "a\nb", "name": "bob"},
        {"role": "assistant", "content": ""},
    ]


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [("x", "x"), (["x"], "x"), ([1, 2], [1, 2]), ([[1, 2]], [1, 2]), ([], []), ([[]], [])],
)
def test_prompts_come_in_four_shapes(prompt, expected):
    body = parse_completion(json.dumps({"model": "m", "prompt": prompt}).encode())
    assert prompt_of(body) == expected


@pytest.mark.parametrize("prompt", [None, 1, {"a": 1}, ["a", 1], [1, True], [1.0], ["a", "b"]])
def test_other_prompts_are_refused(prompt):
    body = parse_completion(json.dumps({"model": "m", "prompt": prompt}).encode())
    with pytest.raises(ApiError) as caught:
        prompt_of(body)
    assert caught.value.param == "prompt"
