import json

import httpx
import pytest

from dflash_deploy.server.api_error import ApiError
from dflash_deploy.server.wire import parse_chat, parse_completion
from tests.unit.server.fakes import running

CHAT = {"model": "model", "messages": [{"role": "user", "content": "h\u00e9"}]}
ASKED = CHAT | {"logprobs": True, "top_logprobs": 2}
BARE = {"model": "model", "prompt": "user: h\u00e9"}


@pytest.fixture(scope="module")
def post():
    with running() as server, httpx.Client(base_url=server.url) as client:
        yield lambda path, body: client.post(path, json=body)


def pieces(response):
    lines = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    return [json.loads(line)["choices"][0] for line in lines[:-1]]


def test_a_chat_tells_each_token_by_its_bytes_the_end_too(post):
    told = post("/v1/chat/completions", ASKED).json()["choices"][0]["logprobs"]["content"]
    said = b"".join(bytes(entry["bytes"]) for entry in told)
    assert said == "h\u00e9<end>".encode()
    half = told[1]
    assert (half["token"], half["bytes"], half["logprob"]) == ("\ufffd", [0xC3], -0.5)
    assert [(e["bytes"], e["logprob"]) for e in half["top_logprobs"]] == [
        ([0xC3], -0.5),
        ([0xC4], -1.5),
    ]


def test_a_stream_tells_the_same(post):
    # the first step is half a character, and has no text to show
    body = ASKED | {"messages": [{"role": "user", "content": "\u00e9h"}]}
    whole = post("/v1/chat/completions", body).json()["choices"][0]["logprobs"]["content"]
    stream = pieces(post("/v1/chat/completions", body | {"stream": True}))
    told = [
        entry for piece in stream if piece["logprobs"] for entry in piece["logprobs"]["content"]
    ]
    assert told == whole


def test_a_completion_names_half_a_character_by_its_bytes(post):
    told = post("/v1/completions", BARE | {"logprobs": 2}).json()["choices"][0]["logprobs"]
    assert told["tokens"] == ["h", "bytes:\\xc3", "bytes:\\xa9", "<end>"]
    assert told["token_logprobs"] == [-0.5] * 4
    assert told["top_logprobs"][1] == {"bytes:\\xc3": -0.5, "bytes:\\xc4": -1.5}
    none = post("/v1/completions", BARE | {"logprobs": 0}).json()["choices"][0]["logprobs"]
    assert none["top_logprobs"][0] == {"h": -0.5}


def test_tokens_behind_a_stop_string_are_not_told(post):
    body = CHAT | {"messages": [{"role": "user", "content": "abcdefg"}], "stop": "c"}
    choice = post("/v1/chat/completions", body | {"logprobs": True}).json()["choices"][0]
    assert [entry["token"] for entry in choice["logprobs"]["content"]] == ["a", "b", "c"]


def test_nothing_is_told_to_who_does_not_ask(post):
    assert post("/v1/chat/completions", CHAT).json()["choices"][0]["logprobs"] is None
    off = post("/v1/chat/completions", CHAT | {"logprobs": False}).json()
    assert off["choices"][0]["logprobs"] is None


@pytest.mark.parametrize(
    ("parse", "body", "param"),
    [
        (parse_chat, CHAT | {"top_logprobs": 2}, "top_logprobs"),
        (parse_chat, ASKED | {"top_logprobs": 21}, "top_logprobs"),
        (parse_chat, CHAT | {"logprobs": 3}, "logprobs"),
        (parse_completion, BARE | {"logprobs": 21}, "logprobs"),
        (parse_completion, BARE | {"logprobs": True}, "logprobs"),
    ],
)
def test_what_is_no_such_number_is_refused(parse, body, param):
    with pytest.raises(ApiError) as caught:
        parse(json.dumps(body).encode())
    assert caught.value.param == param
