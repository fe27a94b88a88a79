"""Bodies that the server does not read, and requests that its end cuts off."""

import asyncio
import http.client
import json

import pytest

from dflash_deploy.server.app import Service, create_app
from dflash_deploy.server.transport import MAX_BODY, CutOff
from tests.unit.server.fakes import HELLO


def test_a_body_that_is_announced_too_large_is_refused_unread(server, client):
    raw = http.client.HTTPConnection(server.url.removeprefix("http://"))
    raw.putrequest("POST", "/v1/completions")
    raw.putheader("Content-Type", "application/json")
    raw.putheader("Content-Length", str(MAX_BODY + 1))
    raw.endheaders()
    response = raw.getresponse()
    assert response.status == 413
    assert json.load(response)["error"]["code"] == "request_too_large"
    raw.close()
    assert client.get("/health").status_code == 200


def test_a_body_that_turns_out_too_large_is_refused(client):
    half = b" " * (MAX_BODY // 2)
    headers = {"Content-Type": "application/json"}
    response = client.post("/v1/completions", content=iter([half, half, b" "]), headers=headers)
    assert response.status_code == 413
    response = client.post("/v1/completions", content=iter([half, half]), headers=headers)
    assert response.json()["error"]["code"] == "invalid_json"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
@pytest.mark.parametrize(
    ("headers", "code"),
    [
        # what a browser sends to another site without asking there first
        ({"Content-Type": "text/plain"}, "unsupported_content_type"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, "unsupported_content_type"),
        ({}, "unsupported_content_type"),
        (
            {"Content-Type": "application/json", "Content-Encoding": "gzip"},
            "unsupported_content_encoding",
        ),
    ],
)
def test_a_body_that_is_not_said_to_be_plain_json_is_refused(client, path, headers, code):
    response = client.post(path, content=json.dumps(HELLO | {"prompt": "a"}), headers=headers)
    assert response.status_code == 415
    assert response.json()["error"]["code"] == code
    assert response.headers.get("accept-encoding") == ("identity" if "enc" in code else None)


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON"])
def test_json_may_be_said_in_other_words(client, kind):
    headers = {"Content-Type": kind, "Content-Encoding": "identity"}
    response = client.post("/v1/chat/completions", content=json.dumps(HELLO), headers=headers)
    assert response.status_code == 200


def cancelled(app, *bodies):
    """What `app` sends to a request that is cancelled once these parts of its body are read."""
    messages = [{"type": "http.request", "body": body, "more_body": True} for body in bodies]
    sent = []

    async def call():
        waiting = asyncio.Event()

        async def receive():
            if messages:
                return messages.pop(0)
            waiting.set()
            return await asyncio.Event().wait()

        async def send(message):
            sent.append(message)

        scope = {
            "type": "http", "method": "POST", "path": "/v1/chat/completions", "query_string": b"",
            "headers": [(b"content-type", b"application/json")],
        }  # fmt: skip
        task = asyncio.create_task(app(scope, receive, send))
        await asyncio.wait_for(waiting.wait(), 5)
        task.cancel()
        await task

    asyncio.run(call())
    return sent


def test_the_server_s_end_is_told_to_a_request_that_still_arrives():
    sent = cancelled(create_app(Service(None, None, None)), b'{"model"')
    assert sent[0]["status"] == 503
    assert json.loads(sent[1]["body"])["error"]["code"] == "shutting_down"


def test_the_server_s_end_cuts_an_answer_that_nobody_reads():
    begun = {"type": "http.response.start", "status": 200, "headers": []}

    async def answer(scope, receive, send):
        await send(begun)
        await receive()

    assert cancelled(CutOff(answer)) == [begun]
