"""Servers in containers: what their labels tell, whoever wrote them."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from docker.errors import APIError, NotFound

from dflash_deploy.errors import DFlashError
from dflash_deploy.launch import containers
from dflash_deploy.launch.containers import LABEL, labelled, stop
from dflash_deploy.launch.servers import healthy
from dflash_deploy.service import known_by
from tests.fakes.plans import plan


def test_the_labels_of_a_plan_are_read_as_they_were_written() -> None:
    made = plan("sglang", port=30001)
    read = labelled(known_by(made))

    assert (read["model"], read["engine"], read["version"]) == (made.model, "sglang", made.version)
    assert (read["port"], read["base_url"]) == (30001, made.base_url)


@pytest.mark.parametrize(
    ("label", "said", "field", "means"),
    [
        ("port", "abc", "port", 0), ("port", "-1", "port", 0), ("port", "9" * 5000, "port", 0),
        ("port", "\u00b2", "port", 0),
        ("acceptance", "high", "expected_length", None),
        ("acceptance", "nan", "expected_length", None),
        ("acceptance", "inf", "expected_length", None),
        ("engine", "ollama", "engine", "vllm"),
        ("version", "latest", "version", ""), ("version", "", "version", ""),
    ],
)  # fmt: skip
def test_a_label_that_means_nothing_tells_nothing(
    label: str, said: str, field: str, means: object
) -> None:
    assert labelled({LABEL: "m", f"dflash.{label}": said})[field] == means


def test_an_address_that_is_none_is_not_healthy() -> None:
    assert not healthy("http://[::bad/health", 1)


def container(monkeypatch: pytest.MonkeyPatch, error: Exception) -> Mock:
    """One that runs, and whose removal is answered so."""
    found = Mock(status="running")
    found.remove.side_effect = error
    client = Mock()
    client.containers.get.return_value = found

    @contextmanager
    def connected():
        yield client

    monkeypatch.setattr(containers, "connected", connected)
    return found


@pytest.mark.parametrize("error", [(APIError, 409), (NotFound, 404)])
def test_one_that_its_command_removes_meanwhile_is_stopped(
    monkeypatch: pytest.MonkeyPatch, error: tuple[type[APIError], int]
) -> None:
    kind, code = error
    found = container(monkeypatch, kind("", SimpleNamespace(status_code=code), "in progress"))

    assert stop("dflash-x-8000")
    found.stop.assert_called_once()


def test_a_removal_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    container(monkeypatch, APIError("", SimpleNamespace(status_code=500), "driver failed"))

    with pytest.raises(DFlashError, match="driver failed"):
        stop("dflash-x-8000")
