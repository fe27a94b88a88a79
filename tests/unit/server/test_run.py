import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from dflash_deploy.errors import LaunchError, Unsupported
from dflash_deploy.server import run as run_module
from dflash_deploy.server.__main__ import main
from dflash_deploy.server.run import bind, serve, url
from dflash_deploy.server.settings import Settings
from dflash_deploy.server.worker import Worker
from tests.unit.server.fakes import ByteText, ScriptedDecoder

ROOT = Path(__file__).parents[3]
SERVE = """
import sys, time
from dflash_deploy.server.run import bind, serve
from dflash_deploy.server.settings import Settings
from dflash_deploy.server.worker import Worker
from tests.unit.server.fakes import ByteText, ScriptedDecoder
decoder = ScriptedDecoder(lambda prompt, sampling: b"x" * 4000, delay=float(sys.argv[1]))
sys.exit(serve(Settings(model="model"), ByteText(), decoder, bind("127.0.0.1", 0), Worker()))
"""


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    # `main` sets it for torch: not for the tests that follow
    monkeypatch.setenv("GOMP_SPINCOUNT", "10000")


@pytest.fixture
def start():
    started = []

    def start(delay):
        argv = [sys.executable, "-c", SERVE, str(delay)]
        process = subprocess.Popen(argv, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        started.append(process)
        ready = process.stderr.readline()
        assert ready.startswith("ready on http://127.0.0.1:")
        return process, ready.removeprefix("ready on ").strip()

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(("sig", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_running_streams_and_the_process(start, sig, code):
    process, address = start(0.01)
    body = {"model": "model", "prompt": "x", "max_tokens": 4000, "stream": True}
    with httpx.stream("POST", f"{address}/v1/completions", json=body) as response:
        lines = response.iter_lines()
        assert next(lines).startswith("data: ")
        process.send_signal(sig)
        rest = [line for line in lines if line]
    began = time.monotonic()
    assert json.loads(rest[-2].removeprefix("data: "))["error"]["code"] == "shutting_down"
    assert rest[-1] == "data: [DONE]"
    assert process.wait(5) == code
    assert time.monotonic() - began < 2
    assert "Traceback" not in process.stderr.read()


def test_a_cycle_that_takes_long_does_not_hold_the_process(start):
    process, address = start(30)
    with httpx.Client(base_url=address) as client, pytest.raises(httpx.ReadTimeout):
        client.post("/v1/completions", json={"model": "model", "prompt": "x"}, timeout=0.3)
    process.terminate()
    assert process.wait(4) == 0
    assert "still running" in process.stderr.read()


def test_a_taken_port_is_one_line_and_exit_7(capsys):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert main(["--model", "no/such", "--port", str(port)]) == 7
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"error: port {port} on 127.0.0.1 is taken by another program"
    assert "Traceback" not in "".join(lines)


def test_a_port_that_is_taken_while_loading_is_found_when_listening():
    ours = bind("127.0.0.1", 0)
    port = ours.getsockname()[1]
    other = bind("127.0.0.1", port)
    other.listen()
    with pytest.raises(LaunchError, match="taken") as caught:
        serve(Settings(model="m", port=port), ByteText(), ScriptedDecoder(), ours, Worker())
    assert caught.value.exit_code == 7
    other.close()


def test_an_unknown_host_is_an_error_of_the_launch():
    with pytest.raises(LaunchError, match=r"--host no\.such\.host\.invalid"):
        bind("no.such.host.invalid", 0)


@pytest.mark.parametrize("host", ["a..b", "x" * 64, "caf\udce9"])
def test_a_host_that_no_name_can_be_is_told_in_a_line(host: str) -> None:
    with pytest.raises(LaunchError, match="is no address: no host is called so"):
        bind(host, 0)


def test_an_address_of_another_machine_is_an_error_of_the_launch():
    with pytest.raises(LaunchError, match="cannot listen on 192"):
        bind("192.0.2.1", 0)


def test_localhost_is_where_127_0_0_1_finds_it():
    with bind("localhost", 0) as listener:
        assert listener.family == socket.AF_INET
        assert url("localhost", listener).startswith("http://localhost:")
        assert url("::1", listener).startswith("http://[::1]:")


def test_a_context_longer_than_the_models_is_unsupported():
    with bind("127.0.0.1", 0) as listener, pytest.raises(Unsupported, match="4096 tokens"):
        serve(
            Settings(model="m", max_model_len=5000),
            ByteText(),
            ScriptedDecoder(),
            listener,
            Worker(),
        )


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (None, "there is no such folder"),
        ({}, "the folder has no config.json"),
        ({"config.json": "{"}, "cannot be loaded"),
    ],
)
def test_an_unreadable_model_is_a_line_and_the_errors_exit_code(tmp_path, capsys, files, says):
    folder = tmp_path / "model"
    if files is not None:
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)
    assert main(["--model", str(folder), "--port", "0"]) == 6
    err = capsys.readouterr().err
    assert any(line.startswith("error: ") and str(folder) in line for line in err.splitlines())
    assert says in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("environ", "spins"),
    [({}, "10000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "ACTIVE"}, None)],
)
def test_openmp_spins_less_unless_the_user_says_otherwise(monkeypatch, environ, spins):
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.setenv(name, "")  # so that it is put back afterwards
        monkeypatch.delenv(name)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setitem(sys.modules, "dflash_deploy.server.run", None)
    main(["--model", "m"])
    assert os.environ.get("GOMP_SPINCOUNT") == spins


def test_loading_and_decoding_share_one_thread(monkeypatch):
    threads = []
    decoder = ScriptedDecoder()

    def load(settings):
        threads.append(threading.get_ident())
        return ByteText(), decoder

    def serve(settings, text, decoder, listener, worker):
        listener.close()
        threads.append(worker.submit(threading.get_ident).result(5))
        return 0

    monkeypatch.setattr(run_module, "load", load)
    monkeypatch.setattr(run_module, "serve", serve)
    assert run_module.run(Settings(model="m", port=0)) == 0
    assert threads[0] == threads[1] != threading.get_ident()


def test_without_the_extra_the_error_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "dflash_deploy.server.run", None)
    assert main(["--model", "m"]) == 5
    assert "pip install 'dflash-deploy[local]'" in capsys.readouterr().err
