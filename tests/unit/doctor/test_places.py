"""Disk, compile caches and limits: what is there, and from where on it is worth a word."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dflash_deploy.doctor import caches, disk, limits
from dflash_deploy.doctor.caches import Cache
from dflash_deploy.doctor.disk import GIB, Disk, Pair
from dflash_deploy.doctor.limits import Limits
from dflash_deploy.registry import load

PAIRS = [Pair("small", GIB), Pair("middle", 20 * GIB), Pair("large", 60 * GIB),
         Pair("huge", 200 * GIB), Pair("vast", 600 * GIB)]  # fmt: skip


def on(free: int, *, writable=True, cached=0) -> list[tuple[str, str]]:
    found = disk.findings(Disk("/hf/hub", free, writable, cached), PAIRS)
    return [(each.state, each.text) for each in found]


def test_the_room_is_counted_in_pairs():
    assert on(900 * GIB) == [
        ("ok", "900.0 GiB free at /hf/hub (no model there): room for any pair of known size")
    ]
    ((state, text),) = on(70 * GIB, cached=2)
    assert state == "ok"
    assert "(2 models there): room for 3 of the 5 pairs" in text
    assert text.endswith("up to large with 60.0 GiB")
    assert on(5 * GIB)[0][0] == "note"


def test_a_full_disk_is_a_problem_unless_models_are_there():
    assert on(GIB)[0][0] == "problem"
    assert on(GIB, cached=1)[0][0] == "note"


def test_a_cache_that_cannot_be_written_is_a_problem():
    assert on(900 * GIB, writable=False)[0] == ("problem", "/hf/hub cannot be written by this user")


def test_the_registry_knows_pairs_and_the_demo_is_the_smallest():
    known = disk.pairs(load(user=False).entries)
    assert known[0].name == "smollm2-135m"
    assert len(known) > 10


def test_the_cache_is_looked_at_where_the_hub_client_has_it(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "none" / "yet"))
    found = disk.read()
    assert (found.folder, found.writable, found.cached) == (str(tmp_path / "none/yet"), True, 0)
    assert found.free > 0
    snapshot = tmp_path / "none/yet/models--a--b/snapshots/1"
    snapshot.mkdir(parents=True)
    assert disk.read().cached == 0
    (snapshot / "config.json").touch()
    assert disk.read().cached == 1


def test_caches_follow_their_variables(tmp_path):
    home = Path("/home/me")
    by_name = {place.name: place for place in caches.PLACES}
    assert caches.where(by_name["vLLM"], {}, home) == home / ".cache/vllm"
    assert caches.where(by_name["vLLM"], {"XDG_CACHE_HOME": "/c"}, home) == Path("/c/vllm")
    assert caches.where(by_name["vLLM"], {"VLLM_CACHE_ROOT": "/v"}, home) == Path("/v")
    flashinfer = caches.where(by_name["FlashInfer"], {"FLASHINFER_WORKSPACE_BASE": "/f"}, home)
    assert flashinfer == Path("/f/.cache/flashinfer")
    assert caches.where(by_name["torch"], {"USER": "me"}, home) == Path("/tmp/torchinductor_me")


def test_caches_are_weighed_without_following_links(tmp_path, monkeypatch):
    folder = tmp_path / ".cache/vllm/torch_compile_cache"
    folder.mkdir(parents=True)
    (folder / "kernel").write_bytes(b"x" * 5000)
    (folder / "loop").symlink_to(tmp_path)
    found = caches.read({"TMPDIR": str(tmp_path)}, tmp_path)
    assert 5000 <= found[0].size < 6000
    assert [cache.size for cache in found[1:]] == [None] * (len(found) - 1)
    monkeypatch.setattr(caches, "LONGEST", -1.0)
    assert not caches.read({"TMPDIR": str(tmp_path)}, tmp_path)[0].whole


def cached(size=None, *, writable=True, whole=True) -> Cache:
    return Cache("vLLM", "VLLM_CACHE_ROOT", "/c/vllm", size, writable, whole)


@pytest.mark.parametrize(
    ("cache", "text"),
    [
        (cached(3 * GIB), "compiled so far: vLLM 3.0 GiB"),
        (cached(3 * GIB, whole=False), "compiled so far: vLLM over 3.0 GiB"),
        (cached(), "nothing compiled yet: an engine's first start takes minutes longer"),
    ],
)
def test_what_is_compiled_is_said(cache, text):
    assert [each.text for each in caches.findings([cache])] == [text]


def test_a_cache_that_keeps_nothing_is_a_note_with_its_variable():
    (said,) = caches.findings([cached(writable=False)])
    assert (said.state, said.remedy) == ("note", "export VLLM_CACHE_ROOT=/a/folder/of/yours")


def test_a_folder_of_others_is_not_writable(tmp_path, monkeypatch):
    """As anybody but root sees it."""
    folder = tmp_path / ".cache"
    folder.mkdir(mode=0o500)
    monkeypatch.setattr(
        os, "access", lambda path, mode: not os.fspath(path).startswith(str(folder))
    )
    assert not caches.read({}, tmp_path)[0].writable


def limited(cards: int, *, shm=16 * GIB, free=16 * GIB, files=1 << 20, locked=8 << 20):
    found = limits.findings(Limits(shm, free, files, locked), cards=cards)
    return [(each.state, each.text) for each in found]


def test_a_containers_default_shared_memory_is_too_little_for_several_cards():
    small = {"shm": 64 << 20, "free": 64 << 20}
    assert limited(2, **small)[0] == (
        "problem", "/dev/shm: 64 MiB, 64 MiB free: too little for a model on 2 cards",
    )  # fmt: skip
    assert limited(1, **small)[0][0] == "ok"
    assert limited(2)[0] == ("ok", "/dev/shm: 16.0 GiB, 16.0 GiB free")
    assert limited(2, free=GIB // 2)[0][0] == "problem"
    assert limited(2, shm=None, free=None)[0] == ("note", "there is no /dev/shm")


def test_files_and_locked_memory():
    assert limited(1)[1] == ("ok", "open files: at most 1048576; locked memory: 8 MiB")
    assert limited(1, files=None, locked=None)[1] == (
        "ok", "open files: any number; locked memory: any amount",
    )  # fmt: skip
    assert limited(1, files=1024)[1][0] == "note"
    assert limited(0, files=1024)[1][0] == "ok"
    assert "InfiniBand" in limited(2)[1][1]


def test_this_machine_has_limits_of_some_kind():
    assert limits.read().files != 0
