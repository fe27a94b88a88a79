"""`dflash train` in a folder where somebody has trained before, and with prompts of odd kinds."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.unit.train import small

TINY = (
    "--num-prompts", "4", "--held-out", "1", "--max-tokens", "8", "--max-length", "480",
    "--layers", "1", "--block-size", "4", "--batch-size", "2", "--anchors", "4", "--steps", "2",
)  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Where `org/tiny` is a target's folder."""
    home = tmp_path_factory.mktemp("home")
    small.saved_target(home / "org" / "tiny")
    return home


def test_a_target_s_folder_is_trained_for_again_once_it_has_an_entry(bare, home):
    bare.env["OMP_NUM_THREADS"] = "1"
    for output in ("first", "second"):
        ended = bare.run("train", "org/tiny", *TINY, "--output", output, cwd=home)
        assert ended.code == 0, ended.err
        assert "no registry entry" not in ended.err
        assert f"next: dflash chat {output}/tiny-DFlash --engine transformers" in ended.err
    again = bare.run("train", "org/tiny", *TINY, "--output", "first", cwd=home)
    assert "models/org/tiny.yaml" in again.out  # and not the file of the second
    other = small.saved_target(home / "copy" / "org" / "tiny")
    for words, said in [
        (("org/tiny", "--output", "else/first"), f"another draft at {home}/first/tiny-DFlash"),
        (("org/tiny", "--output", "else/x", "--id", "Org/Tiny"), "Org/Tiny is a target in"),
        ((str(other), "--output", "else/y"), f"org/tiny is the target at {home}/org/tiny in"),
    ]:
        for options in ((), ("--dry-run",)):
            refused = bare.run("train", *words, *TINY, *options, cwd=home)
            assert (refused.code, said in refused.err) == (2, True), refused.err
            assert "hint: another --output" in refused.err or "another name" in refused.err
    assert not (home / "else").exists()


def test_a_seed_that_no_generator_takes_is_a_slip(bare, home):
    ended = bare.run("train", "org/tiny", "--seed", str(2**63), "--output", "seed", cwd=home)
    assert ended.code == 2
    assert "--seed" in ended.err
    assert not (home / "seed").exists()


def test_a_dry_run_counts_the_prompts_that_are_there(bare, home):
    options = ("--dry-run", "--held-out", "2")
    ended = bare.run("train", "org/tiny", *options, "--prompts", "none.jsonl", cwd=home)
    assert ended.code == 2
    assert "none.jsonl cannot be read" in ended.err
    lines = "".join(f'{{"prompt": "Question {n}"}}\n' for n in range(5))
    (home / "windows.jsonl").write_text("\ufeff" + lines.replace("\n", "\r\n"), encoding="utf-8")
    ended = bare.run(
        "train", "org/tiny", *options, "--prompts", "windows.jsonl", "--json", cwd=home
    )
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["recipe"]["prompts"] == 5


def test_prompts_from_a_pipe_of_the_shell(bare, home):
    reader, writer = os.pipe()
    os.write(writer, b'{"prompt": "What is it?"}\n' * 5)
    os.close(writer)
    options = ("--dry-run", "--held-out", "2", "--prompts", f"/dev/fd/{reader}")
    ended = bare.run("train", "org/tiny", *options, cwd=home, pass_fds=(reader,))
    os.close(reader)
    assert ended.code == 0, ended.err
    assert "5 prompts" in ended.out


@pytest.mark.parametrize("twice", [False, True])
def test_ended_before_anything_is_loaded(bare, home, tmp_path, twice):
    output = tmp_path / "run"
    process = bare.start("train", "org/tiny", *TINY, "--output", str(output), cwd=home)
    while not (output / "recipe.json").exists():
        time.sleep(0.01)
    time.sleep(0.5)  # the process that trains imports torch for longer than that
    for _ in range(1 + twice):
        process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.splitlines()[0] == f"error: interrupted: what was done is in {output}"
    assert "Traceback" not in err


def test_what_is_wrong_is_said_before_anything_is_made(bare, home, tmp_path):
    (home / "left").mkdir()
    (home / "left" / "prompts.jsonl").write_text('{"prompt": "mine"}\n')
    (home / "file").write_text("")
    for options, said in [
        (("--output", "left"), "its prompts would be taken for this one's"),
        (("--output", "new", "--mask-token", "9999"), "--mask-token 9999: the target has 259"),
        (("--output", "file"), "Not a directory"),
        (("--output", "/proc/x"), "/proc/x cannot be written: No such file or directory"),
        (("--output", "new", "--url", "http://127.0.0.1:9"), "127.0.0.1:9"),
    ]:
        ended = bare.run("train", "org/tiny", *TINY, *options, cwd=home)
        assert (ended.code != 0, said in ended.err) == (True, True), ended.err
        assert "Traceback" not in ended.err
    assert (home / "left" / "prompts.jsonl").read_text() == '{"prompt": "mine"}\n'
    assert [file.name for file in (home / "left").iterdir()] == ["prompts.jsonl"]


def test_a_dry_run_knows_a_mask_token_a_server_and_a_run_that_do_not_fit(bare, home):
    for options, said in [
        (("--mask-token", "9999"), "--mask-token 9999: the target has 259"),
        (("--url", "http://127.0.0.1:9"), "127.0.0.1:9"),
    ]:
        ended = bare.run("train", "org/tiny", "--dry-run", *options, cwd=home)
        assert (ended.code != 0, said in ended.err) == (True, True), ended.err
    (small.saved_target(home / "bare" / "tiny") / "model.safetensors").unlink()
    ended = bare.run("train", "bare/tiny", "--dry-run", cwd=home)
    assert "hint: its weights belong beside its config.json" in ended.err


class Hanging(BaseHTTPRequestHandler):
    """Says its names, or not even these, and never answers a question."""

    def log_message(self, *arguments) -> None:
        pass

    def do_GET(self) -> None:
        if self.server.silent:
            self._hang()
        body = b'{"data": [{"id": "org/tiny"}]}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self._hang()

    def _hang(self) -> None:
        self.server.asked.set()
        self.server.over.wait()


@pytest.mark.parametrize("silent", [True, False])
def test_ctrl_c_while_a_server_hangs_is_one_line_at_once(bare, home, tmp_path, silent):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hanging)
    server.silent, server.asked, server.over = silent, threading.Event(), threading.Event()
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    output = ("--output", str(tmp_path / "run"))
    process = bare.start("train", "org/tiny", *TINY, *output, "--url", address, cwd=home)
    assert server.asked.wait(30)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=15)
    server.over.set()
    server.shutdown()
    server.server_close()
    assert process.returncode == 130
    assert len([line for line in err.splitlines() if "interrupted" in line]) == 1
    assert "Traceback" not in err
