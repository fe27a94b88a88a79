"""The hub and the token: what each answer means, and that no finding holds the token."""

from __future__ import annotations

import socket
from datetime import UTC, datetime
from email.utils import format_datetime

import httpx
import pytest

from dflash_deploy.doctor import hub
from dflash_deploy.doctor.hub import Hub
from tests.fakes.hub import Fault, serving
from tests.fakes.hub import Hub as FakeHub

URL = "https://hub.test"
TOKEN = "the token in HF_TOKEN"


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """Ask the fake hub with this token in HF_TOKEN."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "token"))
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    def ask(token=None, endpoint=None, faults=()):
        if token:
            monkeypatch.setenv("HF_TOKEN", token)
        with serving(FakeHub(faults=list(faults))) as fake:
            monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", endpoint or fake.url)
            return hub.read()

    return ask


@pytest.mark.parametrize(
    ("token", "login", "user"),
    [
        ("hf_good", "valid", "ada"), ("hf_bad", "invalid", None), ("hf_old", "expired", None),
        (None, None, None), ("hf_b\u00e4d", "invalid", None), ("hf_a b\x07", "invalid", None),
    ],
)  # fmt: skip
def test_a_token_is_valid_expired_invalid_or_none(asked, token, login, user):
    found = asked(token)
    assert (found.state, found.login, found.user) == ("answers", login, user)
    said = [finding.text + str(finding.remedy) for finding in hub.findings(found)]
    assert token is None or not [line for line in said if token in line]


def test_a_token_that_cannot_be_read_is_told_from_none(asked, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    path = str(tmp_path / "file" / "token")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", path)
    found = asked()
    assert (found.state, found.login) == ("answers", "unreadable")
    assert states(found)[1][0] == "problem"


@pytest.mark.parametrize(
    ("fault", "state"),
    [
        (Fault("whoami", "status", 503), "failing"), (Fault("whoami", "garbage"), "stranger"),
        (Fault("whoami", "status", 429), "answers"),
    ],
)  # fmt: skip
def test_a_hub_in_trouble_and_no_hub_at_all_are_told_apart(asked, fault, state):
    found = asked("hf_good", faults=[fault])
    assert found.state == state
    assert found.login == ("untold" if state == "answers" else None)


def test_nobody_there(asked):
    found = asked("hf_good", endpoint="http://127.0.0.1:9")
    assert (found.state, found.token) == ("unreachable", TOKEN)
    assert "Errno" not in found.detail


def test_a_silent_hub_is_not_waited_for(asked, monkeypatch):
    monkeypatch.setattr(hub, "TIMEOUT", 0.1)
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        assert asked(endpoint=f"http://127.0.0.1:{deaf.getsockname()[1]}").state == "unreachable"


def test_an_endpoint_without_a_scheme_is_a_hub_that_cannot_be_reached(asked):
    assert asked(endpoint="hub.test").state == "unreachable"


def test_a_mirror_that_knows_no_users_is_a_hub():
    answer = httpx.Response(404, json={"error": "not found"})
    assert hub.understood(answer, URL, with_token=True).login == "untold"


def test_passwords_in_the_address_stay_out():
    assert hub.without_password("https://me:secret@mirror/x") == "https://mirror/x"


def test_the_clock_is_read_off_the_date():
    now = datetime(2026, 11, 28, 12, tzinfo=UTC)
    assert hub.skew("Sat, 28 Nov 2026 11:00:00 GMT", now) == 3600
    assert hub.skew("yesterday", now) is None
    assert hub.skew(None, now) is None


def states(found: Hub, **options) -> list[tuple[str, str | None]]:
    return [(each.state, each.remedy) for each in hub.findings(found, **options)]


@pytest.mark.parametrize("ahead", [-400 * 86400, 3600])
def test_a_wrong_clock_explains_a_certificate_that_is_not_trusted(ahead):
    untrusted = Hub(URL, "untrusted", skew=ahead, detail="certificate is not yet valid")
    assert states(untrusted)[0] == ("problem", "sudo timedatectl set-ntp true")
    first = next(hub.findings(untrusted)).text
    assert ("400 days behind" if ahead < 0 else "60 minutes ahead of") in first
    assert states(Hub(URL, "untrusted", skew=1.0))[0] == (
        "problem", "behind a proxy: export SSL_CERT_FILE=/path/to/its-ca.pem",
    )  # fmt: skip
    assert ("note", "sudo timedatectl set-ntp true") in states(Hub(URL, "answers", skew=ahead))


def test_offline_by_wish_is_a_note_and_by_accident_a_problem():
    assert states(Hub(URL, "offline"), cached=3)[0] == ("note", "unset HF_HUB_OFFLINE")
    away = Hub(URL, "unreachable", detail="no route")
    assert states(away)[0][0] == "problem"
    assert "HTTPS_PROXY" in states(away)[0][1]
    assert states(away, cached=3)[0][1].startswith("export HF_HUB_OFFLINE=1")


def test_a_refused_token_is_a_problem_and_none_is_a_note():
    file = Hub(URL, "answers", "the token in /home/me/token", "expired")
    assert states(file)[1] == ("problem", "hf auth login --force")
    variable = Hub(URL, "answers", TOKEN, "invalid")
    assert states(variable)[1] == ("problem", "unset HF_TOKEN && hf auth login")
    assert states(Hub(URL, "answers"))[1] == ("note", "hf auth login")


def test_the_date_of_a_hub_is_kept():
    date = format_datetime(datetime.now(UTC), usegmt=True)
    answer = httpx.Response(401, json={"error": "no"}, headers={"Date": date})
    assert abs(hub.understood(answer, URL, with_token=False).skew) < 60
