"""What a pull finds out before its first byte, and whom it refuses to believe."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dflash_deploy.errors import DownloadError
from dflash_deploy.hub.pulling import Pull
from dflash_deploy.hub.survey import Unreachable
from tests.fakes.hub import COMMIT, Fault, Hub, Repo
from tests.unit.hub.pulls import (
    OTHER,
    look,
    part,
    repository,
)


@pytest.mark.parametrize(
    ("token", "name", "revision", "words", "hint"),
    [
        (
            None,
            "org/locked",
            COMMIT,
            "is gated: its licence .* no token",
            "huggingface.co/org/lock",
        ),
        ("hf_else", "org/locked", COMMIT, "the token in HF_TOKEN has no access", "org/locked"),
        ("hf_bad", "org/big", COMMIT, "refused the token in HF_TOKEN .401.", "hf auth login"),
        (None, "org/none", COMMIT, "does not exist on the hub, or is private", "hf auth login"),
        (None, "org/big", "v9", "has no revision v9", "commits/main"),
        (None, "org/a b", COMMIT, "is not a repository's name", None),
        (None, "org/empty", COMMIT, "has no safetensors weights", "tree/main"),
        (None, "org/torn", COMMIT, "lacks model-00002.*1 in all", "discussions"),
    ],
)
def test_refusals_are_told_apart(
    pull: Pull, fake: Hub, monkeypatch: pytest.MonkeyPatch,
    token: str | None, name: str, revision: str, words: str, hint: str | None,
) -> None:  # fmt: skip
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    torn = repository()
    del torn[OTHER]
    fake.repos |= {
        "org/locked": Repo(repository(), gated=True), "org/empty": Repo({"config.json": b"{}"}),
        "org/torn": Repo(torn),
    }  # fmt: skip

    with pytest.raises(DownloadError, match=words) as caught:
        look(pull, part(name, revision))

    assert (hint or "") in (caught.value.hint or "")
    assert not pull.folder.exists()


def test_a_login_page_is_no_hub(pull: Pull, fake: Hub) -> None:
    fake.faults = [Fault("/api/models", "garbage")]
    with pytest.raises(DownloadError, match="does not answer as a hub does"):
        look(pull)


def test_a_hub_that_is_away_is_told(pull: Pull) -> None:
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:9 cannot be reached"):
        look(replace(pull, endpoint="http://127.0.0.1:9"))


@pytest.mark.parametrize("path", ["../../evil.json", "/etc/evil.json", "a\\b.json"])
def test_a_path_out_of_the_folder_is_refused(pull: Pull, fake: Hub, path: str) -> None:
    fake.repos["org/big"].files[path] = b"{}"
    with pytest.raises(DownloadError, match="does not answer as a hub"):
        look(pull)
