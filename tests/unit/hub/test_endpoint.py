"""The hub's address as people set it."""

from __future__ import annotations

import os

import pytest

from dflash_deploy.errors import DownloadError, UsageError
from dflash_deploy.hub.endpoint import DEFAULT, check_endpoint, check_home, without_password


@pytest.mark.parametrize("said", ["https://hf-mirror.example", "http://127.0.0.1:8080/hub"])
def test_a_mirror_is_taken_as_it_is(monkeypatch, said) -> None:
    monkeypatch.setenv("HF_ENDPOINT", said)
    assert check_endpoint() == said


def test_unset_and_empty_are_the_hub_itself(monkeypatch) -> None:
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    assert check_endpoint() == DEFAULT
    monkeypatch.setenv("HF_ENDPOINT", "")
    assert check_endpoint() == DEFAULT
    assert "HF_ENDPOINT" not in os.environ


@pytest.mark.parametrize(
    "said",
    ["https://[x", "ftp://a.example", "hf.example", "https://", "http://a:port", "https:///x"],
)
def test_what_is_no_address_is_a_usage_error(monkeypatch, said) -> None:
    monkeypatch.setenv("HF_ENDPOINT", said)
    with pytest.raises(UsageError, match="no http or https address") as stopped:
        check_endpoint()
    assert stopped.value.hint.startswith("unset HF_ENDPOINT")


def test_a_password_in_it_is_not_shown() -> None:
    assert without_password("http://me:secret@a.example:1/x") == "http://a.example:1/x"


def test_a_home_that_is_no_folder_is_told(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "new" / "folder"))
    check_home()
    (tmp_path / "file").touch()
    monkeypatch.setenv("HF_HOME", str(tmp_path / "file" / "x"))
    with pytest.raises(DownloadError, match="file is no folder") as stopped:
        check_home()
    assert stopped.value.hint.startswith("unset HF_HOME")
