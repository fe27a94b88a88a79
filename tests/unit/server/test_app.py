import json
import re
import socket
import threading

import httpx
import pytest

from dflash_deploy import __version__
from tests.unit.server.fakes import HELLO, NAMES, ScriptedDecoder, running


def events(response):
    lines = [line for line in response.text.split("\n\n") if line]
    assert all(line.startswith("data: ") for line in lines)
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


def metric(client, name):
    found = re.search(
        rf"^{re.escape(name)}{{[^}}]*}} (\S+)$", client.get("/metrics").text, re.MULTILINE
    )
    return float(found[1])


def test_a_chat_answer_has_openais_shape_and_vllms_metrics(client):
    answer = client.post("/v1/chat/completions", json=HELLO).json()
    assert answer["id"].startswith("chatcmpl-")
    assert (answer["object"], answer["model"]) == ("chat.completion", "model")
    choice = answer["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": "hello there"}
    assert (choice["index"], choice["finish_reason"]) == (0, "stop")
    # prefill, then blocks of 4: "h" "ello" " the" "re" + the stop token
    assert answer["usage"] == {
        "prompt_tokens": 18,
        "completion_tokens": 12,
        "total_tokens": 30,
        "completion_tokens_details": {"accepted_prediction_tokens": 8},
    }
    assert answer["metrics"].pop("time_to_first_token_seconds") > 0
    assert answer["metrics"].pop("decode_seconds") > 0
    assert answer["metrics"]["speculative_decoding"] == {
        "mean_acceptance_length": pytest.approx(1 + 8 / 3),
        "draft_acceptance_rate": pytest.approx(8 / 9),
        "acceptance_histogram": [0, 0, 1, 2],
        "num_spec_steps": 3,
        "num_accepted_draft_tokens": 8,
        "num_draft_tokens": 9,
        "num_spec_tokens": 3,
    }


def test_a_stream_carries_a_cycle_an_event_and_usage_at_the_end(client):
    body = HELLO | {"stream": True, "stream_options": {"include_usage": True}}
    response = client.post("/v1/chat/completions", json=body)
    assert response.headers["content-type"].startswith("text/event-stream")
    opening, *pieces, usage = events(response)
    assert opening["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    deltas = [piece["choices"][0]["delta"].get("content") for piece in pieces]
    assert deltas == ["h", "ello", " the", "re"]
    reasons = [piece["choices"][0]["finish_reason"] for piece in pieces]
    assert reasons == [None, None, None, "stop"]
    assert {piece["usage"] for piece in pieces} == {None}
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 12
    assert usage["metrics"]["speculative_decoding"]["num_spec_steps"] == 3


def test_a_stream_says_nothing_of_usage_unless_asked(client):
    chunks = events(client.post("/v1/chat/completions", json=HELLO | {"stream": True}))
    assert not any("usage" in chunk or "metrics" in chunk for chunk in chunks)


def told(body, client, path="/v1/chat/completions"):
    """Each step that a stream tells, and its text as clients in general see it."""
    body = body | {
        "stream": True,
        "stream_options": {"include_usage": True, "include_dflash": True},
    }
    *chunks, usage = events(client.post(path, json=body))
    choices = [chunk["choices"][0] for chunk in chunks]
    text = "".join(c["text"] if "text" in c else c["delta"].get("content", "") for c in choices)
    return [c["dflash"] for c in choices if "dflash" in c], text, usage


def test_a_stream_tells_what_each_step_took_from_the_draft_when_asked(client):
    steps, text, usage = told(HELLO, client)
    assert text == "hello there"
    assert steps == [
        {"drafted": 0, "accepted": 0, "committed": 1, "pieces": [{"from": "target", "text": "h"}]},
        {
            "drafted": 3,
            "accepted": 3,
            "committed": 4,
            "pieces": [{"from": "draft", "text": "ell"}, {"from": "target", "text": "o"}],
        },
        {
            "drafted": 3,
            "accepted": 3,
            "committed": 4,
            "pieces": [{"from": "draft", "text": " th"}, {"from": "target", "text": "e"}],
        },
        # the target's own token of the last step is the one that ends the answer
        {"drafted": 3, "accepted": 2, "committed": 3, "pieces": [{"from": "draft", "text": "re"}]},
    ]
    speculation = usage["metrics"]["speculative_decoding"]
    assert sum(step["accepted"] for step in steps) == speculation["num_accepted_draft_tokens"]


@pytest.mark.parametrize("text", ["naïve 日本 👩‍👩‍👧 ok", "€€€€", "a"])
def test_the_told_pieces_are_the_text_once_more(client, text):
    body = HELLO | {"messages": [{"role": "user", "content": text}]}
    steps, streamed, usage = told(body, client)
    pieces = [piece["text"] for step in steps for piece in step["pieces"]]
    assert "".join(pieces) == streamed == text
    assert sum(step["committed"] for step in steps) == usage["usage"]["completion_tokens"]


def test_a_completion_s_stream_tells_its_steps_too(client):
    body = {"model": "model", "prompt": "user: hello"}
    steps, text, _ = told(body, client, "/v1/completions")
    assert text == "hello"
    assert [step["committed"] for step in steps] == [1, 4, 1]


def test_plain_decoding_has_no_draft_to_tell_of(client):
    steps, text, _ = told(HELLO | {"speculative": False}, client)
    assert text == "hello there"
    assert {(step["drafted"], step["accepted"], step["committed"]) for step in steps} == {(0, 0, 1)}
    assert {piece["from"] for step in steps for piece in step["pieces"]} == {"target"}


def test_nothing_is_told_of_steps_unless_asked(client):
    body = HELLO | {"stream": True, "stream_options": {"include_usage": True}}
    assert "dflash" not in client.post("/v1/chat/completions", json=body).text.replace(
        "dflash-deploy", ""
    )


def test_plain_decoding_on_request(client):
    before = metric(client, "vllm:spec_decode_num_drafts_total")
    answer = client.post("/v1/chat/completions", json=HELLO | {"speculative": False}).json()
    assert answer["choices"][0]["message"]["content"] == "hello there"
    assert answer["metrics"]["speculative_decoding"] is None
    assert metric(client, "vllm:spec_decode_num_drafts_total") == before


def test_completions_take_text_and_tokens(client):
    for prompt in ("user: hey", ["user: hey"], list(b"user: hey"), [list(b"user: hey")]):
        answer = client.post("/v1/completions", json={"model": "model", "prompt": prompt}).json()
        assert answer["object"] == "text_completion"
        assert answer["choices"][0]["text"] == "hey"


def test_a_completion_streams_text(client):
    body = {"model": "model", "prompt": "user: hello", "stream": True, "max_tokens": 3}
    chunks = events(client.post("/v1/completions", json=body))
    assert [chunk["choices"][0]["text"] for chunk in chunks] == ["h", "el"]
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"


def test_token_ids_on_request(client):
    body = {"model": "model", "prompt": "user: hey", "return_token_ids": True}
    answer = client.post("/v1/completions", json=body).json()
    assert answer["choices"][0]["token_ids"] == [*b"hey", 256]
    assert answer["prompt_token_ids"] == list(b"user: hey")
    chunks = events(client.post("/v1/completions", json=body | {"stream": True}))
    assert [i for c in chunks for i in c["choices"][0]["token_ids"]] == [*b"hey", 256]


@pytest.mark.parametrize("text", ["naïve 日本 👩‍👩‍👧 ok", "€€€€"])
def test_streamed_text_is_whole_characters(client, text):
    body = HELLO | {"messages": [{"role": "user", "content": text}], "stream": True}
    chunks = events(client.post("/v1/chat/completions", json=body))
    pieces = [chunk["choices"][0]["delta"].get("content", "") for chunk in chunks]
    assert "".join(pieces) == text
    assert not any("\ufffd" in piece for piece in pieces)


@pytest.mark.parametrize("stream", [False, True])
def test_a_stop_string_across_blocks_is_never_seen(client, stream):
    # blocks: "h", "ello", " the", "re": the stop string touches three of them
    body = HELLO | {"stop": ["lo ther", "zzz"], "stream": stream}
    response = client.post("/v1/chat/completions", json=body)
    if stream:
        choices = [chunk["choices"][0] for chunk in events(response)]
        text = "".join(choice["delta"].get("content", "") for choice in choices)
        reason = choices[-1]["finish_reason"]
    else:
        choice = response.json()["choices"][0]
        text, reason = choice["message"]["content"], choice["finish_reason"]
    assert (text, reason) == ("hel", "stop")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "not_found"),
        ("GET", "/v1/chat/completions", 405, "method_not_allowed"),
        ("POST", "/v1/models", 405, "method_not_allowed"),
        ("GET", "/v1/models/other", 404, "model_not_found"),
    ],
)
def test_paths_and_methods_are_refused_in_openais_shape(client, method, path, status, code):
    response = client.request(method, path)
    assert response.status_code == status
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["code"] == code
    if status == 405:
        assert "allow" in response.headers


@pytest.mark.parametrize(
    ("path", "body", "status", "param"),
    [
        ("chat/completions", HELLO | {"model": "other"}, 404, "model"),
        ("chat/completions", HELLO | {"n": 2}, 400, "n"),
        ("chat/completions", HELLO | {"max_tokens": 10**6}, 400, "max_tokens"),
        ("completions", {"model": "model"}, 400, "prompt"),
        ("completions", {"model": "model", "prompt": [999]}, 400, "prompt[0]"),
        ("completions", {"model": "model", "prompt": "x" * 5000}, 400, "prompt"),
    ],
)
def test_bodies_are_refused_in_openais_shape(client, path, body, status, param):
    response = client.post(f"/v1/{path}", json=body)
    assert response.status_code == status
    assert response.json()["error"]["param"] == param


def test_the_models_route_lists_every_name(client):
    listed = client.get("/v1/models").json()
    assert [m["id"] for m in listed["data"]] == list(NAMES)
    assert {m["max_model_len"] for m in listed["data"]} == {4096}
    assert client.get("/v1/models/org/model").json()["id"] == "org/model"


def test_health_version_and_heads(client):
    assert client.get("/health").status_code == 200
    own = {"version": __version__, "engine": "transformers"}
    assert client.get("/version").json() == own
    assert client.head("/health").status_code == 200


def test_a_key_guards_v1_and_nothing_else():
    with running(api_key="sesame") as server, httpx.Client(base_url=server.url) as client:
        for key in (None, "wrong", "Bearer", "Bearer sesam", "sesame"):
            headers = {} if key is None else {"Authorization": key}
            response = client.get("/v1/models", headers=headers)
            assert response.status_code == 401
            assert response.json()["error"]["code"] == "invalid_api_key"
        headers = {"Authorization": "Bearer sesame"}
        assert client.get("/v1/models", headers=headers).status_code == 200
        assert client.post("/v1/chat/completions", json=HELLO, headers=headers).status_code == 200
        assert client.get("/v1/nowhere").status_code == 401
        for path in ("/health", "/metrics", "/version"):
            assert client.get(path).status_code == 200


def long_answer(prompt, sampling):
    return b"x" * 4000


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_stops_its_work(stream):
    decoder = ScriptedDecoder(long_answer, delay=0.01)
    with running(decoder) as server:
        host, port = server.url.removeprefix("http://").split(":")
        body = json.dumps(HELLO | {"stream": stream}).encode()
        with socket.create_connection((host, int(port))) as raw:
            head = (
                "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            raw.sendall(head.encode() + body)
            server.wait_until(lambda: len(decoder.cycles) > 3)
        server.wait_until(lambda: decoder.closed != [])
        assert len(decoder.cycles) < 60  # of 1000
        with httpx.Client(base_url=server.url) as client:
            assert metric(client, "vllm:num_requests_running") == 0


def test_a_full_queue_says_when_to_come_back():
    opened = threading.Event()

    def script(prompt, sampling):
        opened.wait(5)
        return b"x"

    with (
        running(ScriptedDecoder(script), max_active=1, max_waiting=0) as server,
        httpx.Client(base_url=server.url) as client,
    ):
        first = threading.Thread(
            target=lambda: httpx.post(f"{server.url}/v1/chat/completions", json=HELLO)
        )
        first.start()
        server.wait_until(lambda: metric(client, "vllm:num_requests_running") == 1)
        refused = client.post("/v1/chat/completions", json=HELLO)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert refused.json()["error"]["code"] == "queue_full"
        opened.set()
        first.join(5)
        assert client.post("/v1/chat/completions", json=HELLO).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_a_failure_before_the_first_token_has_a_status(stream):
    def script(prompt, sampling):
        raise RuntimeError("secret detail")

    with running(ScriptedDecoder(script)) as server:
        body = HELLO | {"stream": stream}
        response = httpx.post(f"{server.url}/v1/chat/completions", json=body)
        assert response.status_code == 500
        assert "secret" not in response.text
        assert httpx.get(f"{server.url}/health").status_code == 200


def test_a_failure_after_the_first_token_is_an_event():
    class Failing(ScriptedDecoder):
        def generate(self, prompt_ids, sampling, *, speculate=True):
            yield from list(super().generate(prompt_ids, sampling))[:2]
            raise RuntimeError("broken")

    with running(Failing()) as server:
        body = HELLO | {"stream": True}
        chunks = events(httpx.post(f"{server.url}/v1/chat/completions", json=body))
        assert chunks[-1]["error"]["type"] == "server_error"


def test_a_server_that_is_stopping_is_not_healthy():
    with running() as server:
        server.scheduler.stop()
        assert httpx.get(f"{server.url}/health").status_code == 503
        refused = httpx.post(f"{server.url}/v1/chat/completions", json=HELLO)
        assert refused.json()["error"]["code"] == "shutting_down"
