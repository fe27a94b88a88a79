from __future__ import annotations

import httpx
import msgspec
import pytest

from dflash_deploy.errors import DFlashError, LaunchError, UsageError
from dflash_deploy.measure.client import (
    Delta,
    Usage,
    _deltas,
    parse_event,
    request_body,
    stream_chat,
)
from dflash_deploy.plan import Endpoint
from tests.unit.measure.conftest import Serve

HELLO = [{"role": "user", "content": "Hello"}]


def chat(endpoint, messages, **options):
    return stream_chat(endpoint, request_body(endpoint, messages, **options))


def test_tokens_are_the_servers_count_and_not_the_chunks(serve: Serve) -> None:
    deltas = list(chat(serve("vllm", ACCEPTANCE=4.0), HELLO, max_tokens=12))

    with_text = [delta for delta in deltas if delta.content]
    assert len(with_text) == 3
    assert deltas[-1].usage == Usage(7, 12)
    assert "".join(delta.content for delta in deltas).startswith("The quick brown fox")
    assert [delta.finish_reason for delta in deltas if delta.finish_reason] == ["length"]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_both_names_of_the_reasoning_are_read(serve: Serve, engine: str) -> None:
    thinking = {"enable_thinking": True}

    deltas = list(chat(serve(engine), HELLO, max_tokens=4, template_kwargs=thinking))

    assert [delta.reasoning for delta in deltas if delta.reasoning] == ["Hm."]


def test_vllm_reports_on_the_request(serve: Serve) -> None:
    endpoint = serve("vllm", flags=("--per-request-spec-decode-metrics", "summary"), ACCEPTANCE=4)

    last = list(chat(endpoint, HELLO, max_tokens=8))[-1]

    assert last.metrics is not None
    assert last.metrics["speculative_decoding"]["mean_acceptance_length"] == 4.0


def test_sglang_reports_on_the_request(serve: Serve) -> None:
    extra = {"return_spec_tokens_details": True}

    last = list(chat(serve("sglang"), HELLO, max_tokens=9, extra=extra))[-1]

    assert last.metrics is not None
    assert last.metrics["spec_tokens_details"]["spec_verify_ct"] == 3


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (429, LaunchError, "limit of requests"),
        (500, LaunchError, r"failed \(500\): the fake was told to answer so"),
        (503, LaunchError, r"failed \(503\)"),
        (400, UsageError, r"refused the request \(400\): the fake"),
    ],
)
def test_refusals_in_words(serve: Serve, status: int, kind: type[DFlashError], words: str) -> None:
    with pytest.raises(kind, match=words):
        list(chat(serve("vllm", STATUS=status), HELLO))


def test_an_unknown_model(serve: Serve) -> None:
    endpoint = msgspec.structs.replace(serve("vllm"), model="other/model")

    with pytest.raises(UsageError, match="does not serve other/model") as caught:
        list(chat(endpoint, HELLO))

    assert caught.value.hint == f"curl {endpoint.base_url}/v1/models"
    assert caught.value.detail == "The model `other/model` does not exist."


def test_a_key_is_taken_by_its_name(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "right")
    monkeypatch.setenv("MINE", "right")
    endpoint = serve("vllm", key_env="MINE")

    assert list(chat(endpoint, HELLO, max_tokens=2))
    with pytest.raises(UsageError, match="wants an API key"):
        list(chat(msgspec.structs.replace(endpoint, api_key_env=None), HELLO))


def test_an_answer_that_breaks_off(serve: Serve) -> None:
    answer = chat(serve("vllm", BREAK_STREAM=1), HELLO)

    assert next(answer).content
    with pytest.raises(LaunchError, match="broke off"):
        list(answer)


def test_nobody_listens() -> None:
    with pytest.raises(LaunchError, match="no server answers") as caught:
        list(chat(Endpoint("http://127.0.0.1:9", "m", "vllm"), HELLO))

    assert caught.value.exit_code == 7


def test_what_is_not_given_is_left_to_the_server() -> None:
    body = request_body(Endpoint("http://x", "m", "vllm"), HELLO, temperature=0.0)

    assert body == {"model": "m", "messages": HELLO, "temperature": 0.0}


@pytest.mark.parametrize(
    ("data", "delta"),
    [
        ('{"choices": [{"delta": {"content": null, "role": "assistant"}}]}', Delta()),
        (
            '{"choices": [{"delta": {"reasoning": "a", "reasoning_content": "a"}}]}',
            Delta(reasoning="a"),
        ),
        ('{"choices": [], "usage": null}', Delta()),
        (
            '{"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}',
            Delta(usage=Usage(1, 2)),
        ),
    ],
)
def test_events(data: str, delta: Delta) -> None:
    assert parse_event(data) == delta


def test_an_error_in_the_middle_of_a_stream() -> None:
    with pytest.raises(LaunchError, match="EngineDead") as caught:
        parse_event('{"error": {"message": "EngineDead", "code": 500}}')
    assert caught.value.hint == "what the server printed says more"
    with pytest.raises(LaunchError, match="not JSON"):
        parse_event("<html>")


def test_an_answer_that_ends_without_its_last_word_is_not_whole() -> None:
    event = 'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'

    assert list(_deltas(httpx.Response(200, text=event + "data: [DONE]\n\n"))) == [Delta("a")]
    with pytest.raises(LaunchError, match="the answer has no end"):
        list(_deltas(httpx.Response(200, text=event)))


@pytest.mark.parametrize(
    "event",
    [
        '{"choices": ["x"]}',
        '{"choices": {"a": 1}}',
        '{"choices": 5}',
        '{"choices": [{"delta": "x"}]}',
        '{"choices": [{"delta": {"content": ["a"]}}]}',
        '{"choices": [{"delta": {"reasoning": 5}}]}',
        '{"choices": [], "usage": {"total": 1}}',
        '{"choices": [], "usage": {"prompt_tokens": "x", "completion_tokens": 1}}',
        '{"choices": [], "metrics": "fast"}',
        '{"choices": [{"delta": {}, "logprobs": {"content": [1]}}]}',
        "[" * 100_000,
    ],
)
def test_what_is_shaped_otherwise_breaks_the_answer_off_in_a_line(event: str) -> None:
    with pytest.raises(LaunchError, match=r"broke off: (no part of an answer|not JSON): "):
        parse_event(event)


def test_half_a_character_does_not_reach_those_who_write_it() -> None:
    event = '{"choices": [{"delta": {"content": "a \\ud83d b", "reasoning": "\\udcff"}}]}'

    assert parse_event(event) == Delta("a \N{REPLACEMENT CHARACTER} b", "\N{REPLACEMENT CHARACTER}")


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_only_the_ends_of_lines_end_a_line(sign: str, end: str) -> None:
    told = sign if sign > " " else f"\\u{ord(sign):04x}"
    event = f'data: {{"choices": [{{"delta": {{"content": "a{told}b"}}}}]}}{end * 2}'

    answer = httpx.Response(200, content=f"{event}data: [DONE]{end * 2}".encode())

    assert list(_deltas(answer)) == [Delta(f"a{sign}b")]


def test_a_page_instead_of_an_answer_is_told() -> None:
    with pytest.raises(LaunchError, match="no part of an answer: <html>please log in</html>"):
        list(_deltas(httpx.Response(200, text="\n<html>please log in</html>\n<p>")))
