"""`dflash chat` with a server that says what nobody expects."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.integration.test_cli_serve import wait_for

PIECES = {
    "steer": ["a\x1b[2Jb", "\x9b31m\x07", "c\td\n\u200de"],
    "cut": ["half an"],
    "letters": ["caf\xe9 \u65e5 \U0001f600"],
}


class Handler(BaseHTTPRequestHandler):
    """Answers with the pieces that the question names; `long` is refused, `cut` breaks off."""

    def log_message(self, *arguments) -> None:
        pass

    def do_GET(self) -> None:
        self.send_error(404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append([message["content"] for message in body["messages"]])
        said = body["messages"][-1]["content"]
        self.send_response(400 if said == "long" else 200)
        self.end_headers()
        if said == "long":
            self.wfile.write(b'{"error": {"message": "longer than the context"}}')
            return
        for piece in PIECES.get(said, ["yes"]):
            self._event({"choices": [{"delta": {"content": piece}}]})
        if said != "cut":
            report = {"mean_acceptance_length": "many"} if said == "odd" else "none"
            self._event({"choices": [], "metrics": {"speculative_decoding": report}})
            self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, event) -> None:
        self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")


@pytest.fixture
def server():
    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.asked = []
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    yield listening
    listening.shutdown()
    listening.server_close()


@pytest.fixture
def talk(bare, server):
    url = f"http://127.0.0.1:{server.server_port}"
    return ["chat", url, "--served-name", "m"]


def test_no_answer_steers_the_terminal(bare, talk):
    ended = bare.run(*talk, "--ask", "steer")
    assert (ended.code, ended.out) == (0, "a[2Jb31mc\td\n\u200de\n")


@pytest.mark.parametrize(
    ("letters", "said"),
    [
        ("ascii", rb"caf\xe9 \u65e5 \U0001f600"),
        ("latin-1", b"caf\xe9 " + rb"\u65e5 \U0001f600"),
        ("utf-8", "caf\xe9 \u65e5 \U0001f600".encode()),
    ],
)
def test_a_letter_that_stdout_does_not_have_is_told_by_its_number(bare, talk, letters, said):
    ended = bare.run(*talk, "--ask", "letters", env={"PYTHONIOENCODING": letters}, text=False)
    assert (ended.code, ended.out) == (0, said + b"\n"), ended.err


def test_what_breaks_an_answer_off_stands_on_a_line_of_its_own(bare, talk):
    ended = bare.run(*talk, "--ask", "cut")
    assert (ended.code, ended.out) == (7, "half an\n")
    assert "error: the answer broke off" in ended.err


@pytest.mark.parametrize("question", ["odd", "why"])
def test_a_report_of_another_kind_is_none(bare, talk, question):
    ended = bare.run(*talk, "--ask", question)
    assert (ended.code, ended.out) == (0, "yes\n")
    assert "acceptance" not in ended.err


@pytest.mark.parametrize("empty", ["", " "])
def test_an_empty_question_is_a_slip_and_waits_for_nobody(bare, talk, server, empty):
    ended = bare.run(*talk, "--ask", empty)
    assert ended.code == 2
    assert "--ask without a question" in ended.err
    assert server.asked == []


def test_bytes_that_are_no_text(bare, talk, server):
    ended = bare.run(*talk, "--ask", os.fsdecode(b"caf\xe9?"))
    assert ended.code == 0, ended.err
    process = bare.start(*talk, stdin=subprocess.PIPE, text=False)
    _, err = process.communicate(b"caf\xe9?\n", timeout=30)
    assert process.returncode == 0, err
    assert server.asked == [["caf\ufffd?"], ["caf\ufffd?"]]


def test_somebody_at_a_terminal_can_ask_again_for_less(bare, talk, server):
    master, slave = pty.openpty()
    process = bare.start(*talk, stdin=slave)
    os.write(master, b"first\nlong\n")
    wait_for("longer than the context", process)
    os.write(master, b"less\n\x04")
    out, _ = process.communicate(timeout=30)
    os.close(master)
    os.close(slave)
    assert process.returncode == 0
    assert out.count("yes") == 2
    assert server.asked[-1] == ["first", "yes", "less"]
    ended = bare.start(*talk, stdin=subprocess.PIPE)
    _, err = ended.communicate("long\nless\n", timeout=30)
    assert ended.returncode == 2, err
