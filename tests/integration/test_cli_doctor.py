"""`dflash doctor` as a user runs it: machines, a hub, a daemon, and none of them."""

from __future__ import annotations

import json
import os
import pty
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.fakes.docker import INFO, NVIDIA, daemon
from tests.fakes.hub import Hub, Quiet, serving
from tests.fakes.nvml import nvml_path
from tests.integration.conftest import ROOT, CommandLine

STATES = {"ok", "note", "problem"}


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving(Hub()) as fake:
        yield fake


@pytest.fixture
def socket() -> Iterator[Path]:
    """Short: a socket's path has at most 107 letters."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "docker.sock"


def at(command: CommandLine, tmp_path: Path, hub: Hub | None, socket: Path, machine: str) -> None:
    """Put the command line on this machine."""
    command.env |= {
        "PYTHONPATH": f"{nvml_path(tmp_path, machine)}:{ROOT}",
        "DOCKER_HOST": f"unix://{socket}", "HF_HOME": str(tmp_path / "hf"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"), "XDG_DATA_HOME": str(tmp_path / "data"),
        "NO_PROXY": "127.0.0.1,localhost",
    }  # fmt: skip
    if hub:
        command.env |= {"HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0"}


@pytest.fixture
def rig(dflash, tmp_path, hub, socket) -> CommandLine:
    """Two cards, both engines, a hub, and no Docker."""
    at(dflash, tmp_path, hub, socket, "2xrtx3090")
    return dflash


@pytest.fixture
def laptop(bare, tmp_path, hub, socket) -> CommandLine:
    at(bare, tmp_path, hub, socket, "none")
    return bare


def document(command: CommandLine, **env: str):
    run = command.run("doctor", "--json", env=env)
    return json.loads(run.out), run


def of(page, area: str) -> list[str]:
    return [each["text"] for each in page["findings"] if each["area"] == area]


def test_a_machine_with_everything_is_ready(rig, socket):
    with daemon(socket, NVIDIA):
        page, run = document(rig, HF_TOKEN="hf_good")
    assert run.code == 0, run.out
    assert page["verdict"]["ready"] is True
    assert page["verdict"]["ways"][:3] == ["vllm", "sglang", "docker"]
    assert page["verdict"]["text"].startswith("ready for vLLM on 2 x RTX-3090; also SGLang")
    cards = page["facts"]["hardware"]["value"]["cards"]
    assert [(card["name"], card["compute_capability"]) for card in cards] == [
        ("RTX-3090", "8.6")
    ] * 2
    assert "Docker 28.3.0 on Ubuntu 24.04.1 LTS, with the NVIDIA runtime" in of(page, "docker")
    assert "the token in HF_TOKEN is valid: ada, read" in of(page, "hub")
    assert {each["state"] for each in page["findings"]} <= STATES
    assert "hf_good" not in run.out + run.err
    assert run.err == ""


def test_the_page_reads_without_colour_and_names_each_mending_command(rig, socket):
    with daemon(socket, INFO):
        page = rig.run("doctor")
    assert page.code == 0, page.out
    lines = page.out.splitlines()
    assert "\x1b" not in page.out
    assert lines[0].split()[:3] == ["gpu", "ok", "0:"]
    docker = next(number for number, line in enumerate(lines) if line.startswith("docker"))
    assert lines[docker].split()[1] == "note"
    assert lines[docker + 1].strip().startswith("-> install nvidia-container-toolkit")
    assert lines[-2].startswith("ready for vLLM on 2 x RTX-3090")
    assert lines[-1] == "-> dflash list, then dflash serve MODEL --engine vllm"


def test_a_laptop_is_told_what_works_there(laptop):
    page, run = document(laptop)
    assert run.code == 0, run.out
    assert page["verdict"] == {
        "ready": True, "exit_code": 0, "ways": ["transformers"],
        "text": "ready for the embedded engine on this CPU: small models",
        "next": "dflash chat smollm2-135m",
    }  # fmt: skip
    assert not [each for each in page["findings"] if each["state"] == "problem"]
    assert "no vLLM here, and no GPU that it could use" in of(page, "engines")


def test_cards_and_no_engine_end_with_the_code_of_a_missing_engine(laptop, tmp_path, hub, socket):
    at(laptop, tmp_path, hub, socket, "h100")
    run = laptop.run("doctor")
    assert run.code == 5
    assert run.out.splitlines()[-1].startswith("-> dflash engine install vllm==")


@pytest.mark.parametrize(
    ("machine", "part"),
    [
        ("driver-too-old", "the NVIDIA driver is too old"),
        ("driver-updated", "library and module differ"),
        ("mig-empty", "GPU 0 is in MIG mode and has no slices"),
    ],
)
def test_a_driver_in_the_way_ends_with_the_code_of_the_hardware(
    rig, tmp_path, hub, socket, machine, part
):
    at(rig, tmp_path, hub, socket, machine)
    page, run = document(rig)
    assert run.code == 4
    assert part in page["verdict"]["text"]
    assert page["verdict"]["next"]


def test_hidden_cards_are_named_with_the_variable(rig):
    page, run = document(rig, CUDA_VISIBLE_DEVICES="")
    assert run.code == 4
    assert page["verdict"]["next"] == "unset CUDA_VISIBLE_DEVICES"
    assert len(page["facts"]["hardware"]["value"]["hidden"]) == 2


def test_a_refused_token_is_said_and_never_shown(rig):
    page, run = document(rig, HF_TOKEN="hf_old")
    assert run.code == 6
    assert "the token in HF_TOKEN has expired" in page["verdict"]["text"]
    assert page["verdict"]["next"] == "unset HF_TOKEN && hf auth login"
    assert "hf_old" not in run.out + run.err
    assert rig.run("doctor", env={"HF_TOKEN": "hf_bad\x07x"}).code == 6


def test_no_network_is_one_line_and_offline_by_wish_is_ready(rig):
    page, run = document(rig, HF_ENDPOINT="http://127.0.0.1:9")
    assert run.code == 6
    assert len(of(page, "hub")) == 2
    assert page["verdict"]["text"].startswith("not ready: http://127.0.0.1:9 cannot be reached")
    page, run = document(rig, HF_HUB_OFFLINE="1", HF_ENDPOINT="http://127.0.0.1:9")
    assert run.code == 0
    assert of(page, "hub")[0].startswith("HF_HUB_OFFLINE is set")


@pytest.fixture
def tomorrow(tmp_path) -> Iterator[str]:
    """A hub over TLS, with a certificate of its own and a clock of another year."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "9", "-subj",
         "/CN=localhost", "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args) -> None: ...

        def date_time_string(self, timestamp=None) -> str:
            return "Fri, 01 Jan 2100 00:00:00 GMT"

        def do_HEAD(self) -> None:
            assert self.headers["Authorization"] is None
            self.send_response(200)
            self.end_headers()

    with Quiet(("127.0.0.1", 0), Handler) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        yield f"https://localhost:{server.server_port}"
        server.shutdown()


def test_a_wrong_clock_is_told_from_a_certificate_nobody_trusts(rig, tomorrow):
    page, run = document(rig, HF_ENDPOINT=tomorrow, HF_TOKEN="hf_good")
    assert run.code == 6
    assert "days behind the hub's" in page["verdict"]["text"]
    assert page["verdict"]["next"] == "sudo timedatectl set-ntp true"


def test_an_unwritable_cache_and_dead_switches_are_found(rig, tmp_path):
    (tmp_path / "hf").write_text("a file")
    page, run = document(rig, SGLANG_ENABLE_SPEC_V2="1", XDG_CACHE_HOME=str(tmp_path / "hf"))
    assert run.code == 6
    assert any(text.endswith("cannot be written by this user") for text in of(page, "disk"))
    assert any(text.endswith("hf/token cannot be read") for text in of(page, "hub"))
    assert of(page, "variables")[0].startswith("SGLANG_ENABLE_SPEC_V2 is set")
    assert any("vLLM cannot keep what it compiles" in text for text in of(page, "caches"))


def test_a_terminal_of_80_columns_holds_it(rig, socket):
    seen, line = pty.openpty()
    env = {"TERM": "xterm", "COLUMNS": "80", "LINES": "50"}
    process = rig.start("doctor", stdout=line, env=env)
    os.close(line)
    said = b""
    while part := _read(seen):
        said += part
    assert process.wait(20) == 0
    lines = [_plain(each) for each in said.decode().splitlines()]
    # a path is never broken, so that it can be copied
    assert not [each for each in lines if len(each) > 80 and " " in each[20:].strip()]
    assert len(lines) < 50


def _plain(line: str) -> str:
    return line.replace("\x1b[1m", "").replace("\x1b[0m", "")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other end is closed
        return b""


def test_its_help_gives_the_codes(bare):
    helped = bare.run("doctor", "--help")
    assert helped.code == 0
    assert "0 ready; else the first problem's: 4 GPU or limits, 5 engine, 6 hub or disk" in (
        " ".join(helped.out.split())
    )
