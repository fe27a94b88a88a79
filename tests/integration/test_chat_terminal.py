"""`dflash chat` as somebody at a terminal sees it, with a server whose tokens are letters."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.integration.conftest import CommandLine

CONTEXT = 60


class Handler(BaseHTTPRequestHandler):
    """Says yes; `go on` is answered until the client leaves, `wait` not at all, `busy` cut off."""

    def log_message(self, *arguments) -> None:
        pass

    def do_GET(self) -> None:
        self.send_error(404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = [message["content"] for message in body["messages"]]
        longest = body.get("max_tokens")
        if len("".join(said)) + (longest or 1) > CONTEXT:
            self.send_response(400)
            self.end_headers()
            words = f"This model's maximum context length is {CONTEXT} tokens."
            self.wfile.write(json.dumps({"error": {"message": words}}).encode())
            return
        self.server.asked.append((said, longest))
        self.send_response(200)
        self.end_headers()
        if said[-1] == "busy":
            self.server.shutdown_request(self.request)
            return
        if said[-1] == "wait":
            self.server.over.wait(20)
            return
        with contextlib.suppress(OSError):
            while said[-1] == "go on" and not self.server.over.wait(0.02):
                self._say("more ")
            tokens = longest if said[-1] == "cut" and longest else 3
            self._say("yes", "length" if said[-1].startswith("cut") else "stop", tokens)
            self.wfile.write(b"data: [DONE]\n\n")
        if said[-1] == "go on":
            self.server.left.set()

    def _say(self, text: str, ended: str | None = None, tokens: int | None = None) -> None:
        event = {"choices": [{"delta": {"content": text}, "finish_reason": ended}]}
        if tokens:
            event["usage"] = {"prompt_tokens": 1, "completion_tokens": tokens}
        self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        self.wfile.flush()


@pytest.fixture
def server():
    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.asked = []
    listening.over, listening.left = threading.Event(), threading.Event()
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    yield listening
    listening.over.set()
    listening.shutdown()
    listening.server_close()


@pytest.fixture
def talk(server):
    url = f"http://127.0.0.1:{server.server_port}"
    return ["chat", url, "--served-name", "m", "--max-tokens", "8"]


def _own_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """A command on a terminal of its own, whose Ctrl-C reaches it as a signal."""

    def __init__(self, command: CommandLine, *argv: str, columns: int = 80, **env: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self._process = command.start(
            *argv, stdin=slave, stdout=slave, stderr=slave, text=False,
            start_new_session=True, preexec_fn=_own_terminal, env={"TERM": "xterm"} | env,
        )  # fmt: skip
        os.close(slave)
        self.shown = ""
        self._seen = 0

    def sees(self, words: str) -> None:
        """Wait until it says so, behind what was seen before."""
        until = time.monotonic() + 20
        while words not in self.shown[self._seen :]:
            assert time.monotonic() < until, self.shown
            assert self._read(), self.shown
        self._seen = self.shown.index(words, self._seen) + len(words)

    def types(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def interrupts(self) -> None:
        """Ctrl-C while it waits: Python's readline misses one that comes just before that."""
        state = Path(f"/proc/{self._process.pid}/stat")
        while state.read_text().rpartition(") ")[2][0] != "S":
            time.sleep(0.005)
        self.types("\x03")

    def ends(self) -> int:
        while self._read():
            pass
        os.close(self._master)
        return self._process.wait(20)

    def _read(self) -> bool:
        """False once nothing more can come."""
        if not select.select([self._master], [], [], 20)[0]:
            return False
        try:
            self.shown += os.read(self._master, 65536).decode()
        except OSError:
            return False
        return True


def test_an_answer_that_breaks_off_ends_no_conversation(bare, talk, server):
    screen = Terminal(bare, *talk)
    screen.sees("> ")
    screen.types("hi\r")
    screen.sees("yes")
    screen.sees("> ")
    screen.types("busy\r")
    screen.sees("error: ")
    screen.sees("> ")
    screen.types("and now?\r")
    screen.sees("yes")
    screen.sees("> ")
    screen.types("\x04")
    assert screen.ends() == 0
    assert server.asked[-1][0] == ["hi", "yes", "and now?"]


def test_ctrl_c_ends_an_answer_and_what_came_was_said(bare, talk, server):
    screen = Terminal(bare, *talk)
    screen.sees("> ")
    screen.types("go on\r")
    screen.sees("more more ")
    screen.interrupts()
    screen.sees("[stopped: what came is kept]")
    screen.sees("> ")
    assert server.left.wait(10)
    screen.types("and now?\r")
    screen.sees("yes")
    screen.sees("> ")
    (question, came, now), _ = server.asked[-1]
    assert (question, now) == ("go on", "and now?")
    assert came.startswith("more more ")
    screen.types("half a question")
    screen.sees("half a question")
    screen.interrupts()
    screen.sees("> ")  # that line alone is given up
    screen.interrupts()
    assert screen.ends() == 130
    assert "Traceback" not in screen.shown


def test_ctrl_c_before_an_answer_leaves_the_question_out(bare, talk, server):
    screen = Terminal(bare, *talk)
    screen.sees("> ")
    screen.types("wait\r")
    while not server.asked:
        time.sleep(0.01)
    screen.interrupts()
    screen.sees("the question is left out]")
    screen.sees("> ")
    screen.types("and now?\r")
    screen.sees("yes")
    screen.sees("> ")
    assert server.asked[-1][0] == ["and now?"]
    screen.types("\x04")
    assert screen.ends() == 0


def test_where_nobody_watches_ctrl_c_ends_the_command(bare, talk, server):
    for ask in (["--ask", "go on"], []):
        process = bare.start(*talk, *ask, stdin=subprocess.PIPE)
        if not ask:
            process.stdin.write("go on\nmore?\n")
            process.stdin.flush()
        assert process.stdout.read(10) == "more more "
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
        assert process.returncode == 130
        assert "Traceback" not in err
    assert len(server.asked) == 2


def test_a_paste_of_several_lines_is_one_question(bare, talk, server):
    screen = Terminal(bare, *talk)
    screen.sees("\x1b[?2004h")  # so that the terminal tells a paste
    screen.sees("> ")
    screen.types("\x1b[200~one\rtwo\r\x1b[201~")
    screen.types("\r")
    screen.sees("yes")
    screen.sees("> ")
    screen.types("\x04")
    assert screen.ends() == 0
    assert [asked for asked, _ in server.asked] == [["one\ntwo"]]


@pytest.mark.parametrize("columns", [20, 200])
def test_a_dumb_terminal_gets_letters_alone(bare, talk, server, columns):
    screen = Terminal(bare, *talk, columns=columns, TERM="dumb")
    screen.sees("> ")
    screen.types("one\r")
    screen.sees("yes")
    screen.sees("> ")
    screen.types("\x04")
    assert screen.ends() == 0
    assert "\x1b" not in screen.shown


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("cut", "[8 tokens, cut off: --max-tokens allows more]"),
        ("cut short", "[3 tokens, cut off: the context is full]"),
        ("hm", "[3 tokens]"),
    ],
)
def test_an_answer_that_was_cut_is_told(bare, talk, question, said):
    told = bare.run(*talk, "--ask", question).err
    assert " ".join(part for part in told.split() if "tokens/s" not in part) == said


def test_what_no_longer_fits_the_context_is_left_out_from_the_beginning(bare, talk, server):
    process = bare.start(*talk, stdin=subprocess.PIPE)
    letters = ["a" * 26, "b" * 25, "c" * 24, "d"]
    _, err = process.communicate("\n".join(letters), timeout=20)
    assert process.returncode == 0, err
    a, b, c, d = letters
    assert server.asked == [
        ([a], 8),
        ([a, "yes", b], None),  # room for an answer, but not for the longest one
        ([b, "yes", c], 8),
        ([b, "yes", c, "yes", d], None),
    ]
    assert err.count("left out") == 1
    assert "[the context is full: the oldest turn is left out from here on]" in err


def test_a_question_that_fits_no_context_leaves_the_conversation_as_it_was(bare, talk, server):
    screen = Terminal(bare, *talk, TERM="dumb")
    for question, answer in (("one", "yes"), ("x" * 70, "context length"), ("two", "yes")):
        screen.sees("> ")
        screen.types(question + "\r")
        screen.sees(answer)
    screen.sees("> ")
    screen.types("\x04")
    assert screen.ends() == 0
    assert server.asked[-1] == (["one", "yes", "two"], 8)
    ended = bare.run(*talk, "--ask", "x" * 70)
    assert ended.code == 2
    assert "hint: ask for less" in ended.err
