"""`registry add` and the files of a draft: the hub client's, damaged, endless, and a full disk."""

from __future__ import annotations

import json
import os
import resource
import shlex
import struct
from pathlib import Path

from tests.integration.test_cli_registry_add import DRAFT, TARGET, folder, works


def test_the_hub_clients_cache_names_a_folders_repository_and_commit(bare, tmp_path):
    draft = tmp_path / "models--me--draft" / "snapshots" / ("3" * 40)
    folder(draft, DRAFT)
    header = json.dumps(
        {"a": {"dtype": "BF16", "shape": [4, 8], "data_offsets": [0, 64]},
         "d2t": {"dtype": "I64", "shape": [2], "data_offsets": [64, 80]}}
    ).encode()  # fmt: skip
    tensors = struct.pack("<Q", len(header)) + header + bytes(80)
    (draft / "model.safetensors").write_bytes(tensors)
    added = bare.run("registry", "add", str(draft), "--target", "qwen3-8b", "--json")
    (found,) = json.loads(added.out)["entry"]["drafts"]
    assert (found["id"], found["revision"], found["parameters"]) == ("me/draft", "3" * 40, 32)


def test_a_damaged_file_of_weights_says_nothing_of_the_size(bare, tmp_path):
    draft = folder(tmp_path / "draft", DRAFT)
    (tmp_path / "draft" / "model.safetensors").write_bytes(b"\xff" * 30)
    added = bare.run("registry", "add", draft, "--id", "me/d", "--target", "qwen3-8b", "--json")
    (found,) = json.loads(added.out)["entry"]["drafts"]
    assert (found["parameters"], found["gib"]) == (1048626432, 1.95)


def test_a_pipe_in_place_of_weights_is_not_waited_for(bare, tmp_path):
    draft = folder(tmp_path / "draft", DRAFT)
    os.mkfifo(tmp_path / "draft" / "model.safetensors")
    added = bare.run("registry", "add", draft, "--id", "me/d", "--target", "qwen3-8b")
    assert added.code == 0, added.err


def limited(bytes_of_memory: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (bytes_of_memory, bytes_of_memory))


def test_a_file_without_an_end_is_not_read_to_it(bare, tmp_path):
    (tmp_path / "draft").mkdir()
    with (tmp_path / "draft" / "config.json").open("wb") as config:
        config.truncate(1 << 40)
    refused = bare.run("registry", "add", str(tmp_path / "draft"), "--target", "qwen3-8b",
                       preexec_fn=lambda: limited(2 << 30))  # fmt: skip
    assert (refused.code, "is no JSON object" in refused.err) == (6, True), refused.err
    draft = folder(tmp_path / "other", DRAFT)
    with (tmp_path / "other" / "model.safetensors.index.json").open("wb") as index:
        index.truncate(1 << 40)
    added = bare.run("registry", "add", draft, "--id", "me/d", "--target", "qwen3-8b",
                     preexec_fn=lambda: limited(2 << 30))  # fmt: skip
    assert added.code == 0, added.err


def test_a_disk_that_is_full_leaves_nothing_behind(bare, tmp_path):
    draft = folder(tmp_path / "draft", DRAFT)

    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    refused = bare.run("registry", "add", draft, "--id", "me/d", "--target", "qwen3-8b",
                       preexec_fn=full)  # fmt: skip
    assert refused.code == 3, refused.err
    assert "cannot be written: File too large" in refused.err
    assert not (tmp_path / "config").exists()


def test_the_next_command_can_be_typed_as_it_is_said(bare, tmp_path):
    draft, own = folder(tmp_path / "draft", DRAFT), tmp_path / "my own"
    added = bare.run("registry", "add", draft, "--id", "me/d", "--target", "qwen3-8b",
                     "--registry", str(own))  # fmt: skip
    said = added.err.splitlines()[-1].removeprefix("next: dflash ")
    assert bare.run(*shlex.split(said)).code == 0


def test_a_target_that_no_hub_has_is_served_from_its_folder(bare, tmp_path):
    draft, target = folder(tmp_path / "draft", DRAFT), folder(tmp_path / "my target", TARGET)
    words = ("--target", "local/tuned", "--target-config", target)
    assert bare.run("registry", "add", draft, *words).code == 0
    for engine in ("vllm", "sglang"):
        plan = works(bare, "tuned", engine=engine)
        assert plan["target"]["path"] == target
        assert target in plan["argv"]
        assert "local/tuned" not in plan["argv"][:4]
    shown = bare.run("show", "tuned").out
    assert f"folder    {target}" in shown
    assert f"folder    {draft}" in shown
    pulled = bare.run("pull", "tuned")
    assert (pulled.code, f"target  {target}" in pulled.out) == (0, True), pulled.err
    Path(target).rename(tmp_path / "another")
    gone = bare.run("plan", "tuned", "-e", "vllm")
    assert (gone.code, f"local/tuned is served from {target}" in gone.err) == (3, True)
    assert "models/local/tuned.yaml" in gone.err
