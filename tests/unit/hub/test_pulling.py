"""A pull from beginning to end, with the real client: what comes, what stays, what is found again."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

import pytest

from dflash_deploy.errors import DownloadError
from dflash_deploy.hub.local import local
from dflash_deploy.hub.progress import Progress
from dflash_deploy.hub.pulling import Pull, bring
from tests.fakes.hub import COMMIT, Fault, Hub, Repo, tensors
from tests.unit.hub.pulls import (
    BIG,
    OTHER,
    SIZE,
    fetched,
    look,
    part,
    whole,
)


def test_a_pull_brings_what_an_engine_reads_once(pull: Pull, fake: Hub) -> None:
    seen = look(pull)
    assert seen.to_fetch == seen.size == sum(file.size for file in seen.files)
    assert seen.skipped > 2 * SIZE
    assert not pull.folder.exists()  # a plan leaves no traces

    (folder,) = bring([seen], pull)

    whole(pull, fake, folder)
    asked = len(fake.asked)
    assert fetched(pull) == [folder]
    assert not [each for each in fake.asked[asked:] if "resolve" in each.path]


def test_the_real_client_finds_it_without_a_network(pull: Pull) -> None:
    from huggingface_hub import hf_hub_download, snapshot_download

    fetched(pull, part(revision=None))

    found = snapshot_download("org/big", cache_dir=pull.folder, local_files_only=True)
    assert Path(found).name == COMMIT
    hf_hub_download("org/big", BIG, cache_dir=pull.folder, local_files_only=True)


def test_a_second_run_goes_on_where_the_first_was_cut(pull: Pull, fake: Hub) -> None:
    seen = look(pull)
    fake.faults = [Fault("/cdn/", "cut", after=SIZE // 4), Fault("/cdn/", "status", 503, times=99)]
    with pytest.raises(DownloadError):
        bring([seen], pull)
    fake.faults = []
    begun = sum(look(pull).begun.values())
    assert begun > SIZE // 8
    asked = len(fake.asked)

    (folder,) = fetched(pull)

    whole(pull, fake, folder)
    assert [each for each in fake.asked[asked:] if each.range and each.cdn]


@pytest.mark.parametrize("left", [b"x" * 1000, b"y" * (SIZE * 2), b""])
def test_a_partial_file_of_something_else_does_no_harm(pull: Pull, fake: Hub, left: bytes) -> None:
    digest = hashlib.sha256(fake.repos["org/big"].files[BIG]).hexdigest()
    partial = pull.folder / "models--org--big/blobs" / f"{digest}.incomplete"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(left)

    whole(pull, fake, fetched(pull)[0])


def test_the_figure_never_falls_and_ends_at_the_total(pull: Pull, fake: Hub) -> None:
    fake.faults = [
        Fault("/cdn/", "cut", after=200_000), Fault("/cdn/", "whole"),
        Fault("/cdn/", "wrong", after=5), Fault("/cdn/", "stall", after=70_000, pause=0.5),
    ]  # fmt: skip
    figures: list[int] = []

    def watch(progress: Progress) -> None:
        figures.append(progress.done)
        assert progress.done <= progress.total == seen.size

    seen = look(pull)
    bring([seen], pull, watch)

    assert figures == sorted(figures)
    assert figures[-1] == seen.size


def test_a_token_goes_to_the_hub_and_never_to_the_cdn(
    pull: Pull, fake: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_good")
    fake.repos["org/big"].gated = True

    fetched(pull)

    assert {each.token for each in fake.asked if not each.cdn} == {"Bearer hf_good"}
    assert {each.token for each in fake.asked if each.cdn} == {None}


def test_damage_is_found_where_it_is_looked_for(pull: Pull, fake: Hub) -> None:
    (folder,) = fetched(pull)
    blob = (folder / BIG).resolve()
    blob.write_bytes(bytes(len(blob.read_bytes())))
    assert look(pull).missing == ()

    seen = look(pull, verify=True)

    assert [file.path for file in seen.missing] == [BIG]
    assert local(part(), pull.folder).lacks == BIG
    whole(pull, fake, bring([seen], pull)[0])


def test_a_blob_cut_short_is_fetched_again(pull: Pull, fake: Hub) -> None:
    (folder,) = fetched(pull)
    os.truncate((folder / BIG).resolve(), 1000)
    assert local(part(), pull.folder).lacks == BIG

    whole(pull, fake, fetched(pull)[0])


def test_two_at_once_fetch_each_file_once(pull: Pull, fake: Hub, said: list[str]) -> None:
    digest = hashlib.sha256(fake.repos["org/big"].files[OTHER]).hexdigest()
    fake.faults = [Fault(digest, "drip", after=SIZE // 3, pause=0.004)]
    failures: list[BaseException] = []

    def run() -> None:
        try:
            fetched(pull)
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not failures
    whole(pull, fake, pull.folder / "models--org--big/snapshots" / COMMIT)
    assert len([each for each in fake.asked if each.cdn]) == 2
    assert any("another program is fetching it" in line for line in said)


def test_target_and_draft_come_together_or_stay_unseen(pull: Pull, fake: Hub) -> None:
    fake.repos["org/draft"] = Repo({"config.json": b"{}", "model.safetensors": tensors(500, 9)})
    draft = part("org/draft", None, role="draft")
    seen = [look(pull), look(pull, draft)]
    digest = hashlib.sha256(tensors(500, 9)).hexdigest()
    fake.faults = [Fault(digest, "status", 503, times=99)]
    with pytest.raises(DownloadError):
        bring(seen, pull)
    assert not list(pull.folder.glob("*/snapshots/*"))
    fake.faults = []

    folders = fetched(pull, part(), draft)

    assert [folder.parent.parent.name for folder in folders] == [
        "models--org--big", "models--org--draft",
    ]  # fmt: skip
    assert local(draft, pull.folder).lacks is None
