"""Answers from a server: text becomes tokens again, in the order of the prompts."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dflash_deploy.errors import LaunchError
from dflash_deploy.plan import Endpoint
from dflash_deploy.train import answers
from dflash_deploy.train.chat import Chat
from dflash_deploy.train.events import Stopped
from dflash_deploy.train.prompts import Asked
from tests.unit.train import small


class Handler(BaseHTTPRequestHandler):
    """Says the question back, letter by letter; `long` is cut off, and `broken` fails."""

    def log_message(self, *arguments) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)
        said = body["messages"][-1]["content"]
        self.send_response(500 if said == "broken" else 200)
        self.end_headers()
        ends = "length" if said == "long" else "stop"
        events = [{"choices": [{"delta": {"content": letter}}]} for letter in said]
        events.append({"choices": [{"delta": {}, "finish_reason": ends}]})
        for event in events:
            self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        self.wfile.write(b"data: [DONE]\n\n")


class Server(ThreadingHTTPServer):
    request_queue_size = 64  # of its own five, a burst of sixteen now and then has one reset


@pytest.fixture
def server():
    listening = Server(("127.0.0.1", 0), Handler)
    listening.bodies = []
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    yield listening
    listening.shutdown()
    listening.server_close()


@pytest.fixture
def plan(tmp_path):
    folder = small.saved_target(tmp_path / "target")
    return small.recipe(model=str(folder), answer_tokens=16, length=120)


@pytest.fixture
def ask(server, plan):
    endpoint = Endpoint(f"http://127.0.0.1:{server.server_port}", "tiny", "vllm")
    return answers.side_by_side(answers.from_server(plan, Chat(plan), endpoint), lambda: False)


def questions(*texts):
    return [Asked(n, [{"role": "user", "content": text}]) for n, text in enumerate(texts)]


def test_text_becomes_tokens_with_an_end_only_where_it_ended(ask, server, plan):
    done, long = ask(questions("done", "long"))
    chat = Chat(plan)
    said = [token for token, own in zip(done.input_ids, done.loss_mask, strict=True) if own]
    assert said == [*chat.text("done"), chat.end]
    assert sum(long.loss_mask) == 4
    assert {body["max_tokens"] for body in server.bodies} == {16}
    assert {body["temperature"] for body in server.bodies} <= {0.0, 0.7}


def test_many_at_once_come_back_in_order(ask):
    texts = [f"question {n}" for n in range(40)]
    assert [answer.id for answer in ask(questions(*texts))] == list(range(40))


def test_what_came_before_a_failure_is_kept(ask, tmp_path):
    texts = [*["a b"] * 22, "broken"]
    seen = []
    with pytest.raises(LaunchError, match="the server failed") as caught:
        answers.regenerate(
            tmp_path / answers.FILE,
            questions(*texts),
            ask,
            lambda done, _: seen.append(done),
            lambda: False,
        )
    assert (seen[0], seen[-1]) == (0, 22)  # before the first, which may never come
    assert len((tmp_path / "answers.begun.jsonl").read_bytes().splitlines()) == 22
    assert not (tmp_path / answers.FILE).exists()
    assert (caught.value.hint or "").endswith("; then the same command, which goes on")


def test_a_server_that_never_answers_keeps_nobody():
    never, looks = threading.Event(), []

    def stop() -> bool:
        looks.append(threading.active_count())
        return len(looks) == 2

    answered = answers.side_by_side(lambda _: never.wait(), stop)
    with pytest.raises(Stopped):
        next(answered(questions("hello")))
    waiting = [each for each in threading.enumerate() if each is not threading.main_thread()]
    assert all(each.daemon for each in waiting)  # the process ends without them
    never.set()


def test_a_prompt_without_room_for_an_answer_is_left_out(ask):
    (answer,) = ask(questions("x" * 200))
    assert answers.usable([answer]) == []
