"""The hub: reached, by whom, and if not, why not. The token is in no finding."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from dflash_deploy.doctor.disk import models
from dflash_deploy.doctor.finding import Finding, State, plain
from dflash_deploy.hub import trouble
from dflash_deploy.hub.endpoint import without_password

if TYPE_CHECKING:
    import httpx

TIMEOUT = 3.0
SKEW = 300.0
"""Seconds that a clock may be off before signatures and certificates are at risk."""
BUSY = 429
SET_CLOCK = "sudo timedatectl set-ntp true"


Login = Literal["valid", "expired", "invalid", "untold", "unreadable"]


class Hub(msgspec.Struct, frozen=True):
    """`untrusted`: its certificate; `stranger`: something answers that is no hub."""

    endpoint: str
    state: Literal["answers", "offline", "unreachable", "untrusted", "failing", "stranger"]
    token: str | None = None
    """Where it comes from; never the token."""
    login: Login | None = None
    user: str | None = None
    role: str | None = None
    skew: float | None = None
    """Seconds that this clock is ahead of the hub's."""
    detail: str | None = None


def read() -> Hub:
    """One question: who am I. Without a token a hub answers it too, with a refusal."""
    from huggingface_hub import constants, get_token

    endpoint = without_password(constants.ENDPOINT)
    try:
        source = trouble.token_source()
        token = get_token() if source else None
    except OSError:
        found = Hub(endpoint, "offline") if trouble.offline() else _asked(endpoint, None)
        source = f"the token in {constants.HF_TOKEN_PATH}"
        return msgspec.structs.replace(found, token=source, login="unreadable")
    if trouble.offline():
        return Hub(endpoint, "offline", source)
    if token and not (token.isascii() and token.isprintable()):
        # no header can carry it, and the error that says so would quote it
        return msgspec.structs.replace(_asked(endpoint, None), token=source, login="invalid")
    return msgspec.structs.replace(_asked(endpoint, token), token=source)


def _asked(endpoint: str, token: str | None) -> Hub:
    import httpx
    from huggingface_hub import constants, get_session
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    headers = build_hf_headers(token=token or False)
    try:
        answer = get_session().get(
            f"{constants.ENDPOINT}/api/whoami-v2", headers=headers, timeout=TIMEOUT
        )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        said = re.sub(r"^\[Errno -?\d+\] ", "", str(error)) or type(error).__name__
        if "CERTIFICATE" not in said:
            return Hub(endpoint, "unreachable", detail=said)
        ahead = _distrusted_clock(constants.ENDPOINT)
        return Hub(endpoint, "untrusted", skew=ahead, detail=said)
    return understood(answer, endpoint, with_token=bool(token))


def _distrusted_clock(endpoint: str) -> float | None:
    """By how much this clock is ahead, from a hub that is not trusted: it is told no token."""
    import httpx

    try:
        answer = httpx.head(endpoint, verify=False, timeout=TIMEOUT)  # noqa: S501
    except httpx.HTTPError:
        return None
    return skew(answer.headers.get("Date"))


def skew(date: str | None, now: datetime | None = None) -> float | None:
    try:
        theirs = parsedate_to_datetime(date or "")
        return ((now or datetime.now(UTC)) - theirs).total_seconds()
    except (ValueError, TypeError):
        return None


def understood(answer: httpx.Response, endpoint: str, *, with_token: bool) -> Hub:
    """What an answer to whoami tells: of the hub, and of the token. Pure."""
    status, document = answer.status_code, _json(answer)
    said = f"{answer.headers.get('X-Error-Message', '')} {document.get('error', '')}".strip()
    found = Hub(endpoint, "answers", skew=skew(answer.headers.get("Date")))
    login: Login | None = None
    user = role = None
    if status in (401, 403):
        login = "expired" if "expired" in said else "invalid"
    elif status == 200 and document.get("name"):
        login, user = "valid", str(document["name"])
        role = _role(document)
    elif status == BUSY or (status == 404 and document):
        login = "untold"  # a hub that is asked too often, or a mirror that knows no users
    elif status >= 500:
        detail = f"{status} {said}".strip()
        return msgspec.structs.replace(found, state="failing", detail=detail)
    else:
        detail = f"it answered {status}"
        return msgspec.structs.replace(found, state="stranger", detail=detail)
    if not with_token:
        return found
    return msgspec.structs.replace(found, login=login, user=user, role=role)


def _role(document: dict[str, Any]) -> str | None:
    auth = document.get("auth")
    token = auth.get("accessToken") if isinstance(auth, dict) else None
    return str(token["role"]) if isinstance(token, dict) and token.get("role") else None


def _json(answer: httpx.Response) -> dict[str, Any]:
    try:
        found = answer.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def findings(hub: Hub, *, cached: int = 0) -> Iterator[Finding]:
    """`cached`: repositories that are on this disk already."""
    reached, remedy = _reached(hub, cached)
    blocked = hub.state not in ("answers", "offline")
    state: State = "problem" if blocked else "note" if hub.state == "offline" else "ok"
    yield Finding("hub", state, plain(reached), remedy)
    if hub.state == "answers":
        yield _login(hub)
        if hub.skew is not None and abs(hub.skew) > SKEW:
            yield Finding("hub", "note", _clock(hub.skew), SET_CLOCK)
    elif hub.token is None:
        yield Finding("hub", "ok", "no token is set: gated models would need one")
    else:
        yield Finding("hub", "ok", f"{hub.token} was not tried")


def _reached(hub: Hub, cached: int) -> tuple[str, str | None]:
    text, remedy = f"{hub.endpoint} answers", None
    if hub.state == "offline":
        text = (
            f"HF_HUB_OFFLINE is set: of the hub, only what is cached is served ({models(cached)})"
        )
        remedy = "unset HF_HUB_OFFLINE"
    elif hub.state == "failing":
        text = f"{hub.endpoint} is in trouble: {hub.detail}"
        remedy = "https://status.huggingface.co"
    elif hub.state == "stranger":
        text = f"what answers at {hub.endpoint} is no hub: {hub.detail}"
        remedy = "check HF_ENDPOINT; behind a network's login page, log in"
    elif hub.state == "untrusted" and hub.skew is not None and abs(hub.skew) > SKEW:
        text = f"TLS to {hub.endpoint} fails: {_clock(hub.skew)}"
        remedy = SET_CLOCK
    elif hub.state == "untrusted":
        text = f"the certificate of {hub.endpoint} is not trusted: {hub.detail}"
        remedy = "behind a proxy: export SSL_CERT_FILE=/path/to/its-ca.pem"
    elif hub.state == "unreachable":
        text = f"{hub.endpoint} cannot be reached: {hub.detail}"
        remedy = "check the network or HTTPS_PROXY, or set HF_ENDPOINT to a mirror"
        if cached:
            remedy = f"export HF_HUB_OFFLINE=1, to serve what is cached ({models(cached)})"
    return text, remedy


def _login(hub: Hub) -> Finding:
    match hub.login:
        case None:
            return Finding("hub", "note", "no token is set: gated models need one", "hf auth login")
        case "valid":
            role = f", {hub.role}" if hub.role else ""
            return Finding("hub", "ok", plain(f"{hub.token} is valid: {hub.user}{role}"))
        case "unreadable":
            return Finding("hub", "problem", f"{hub.token} cannot be read", "check HF_HOME")
        case "untold":
            return Finding("hub", "note", f"the hub does not say whether {hub.token} is valid")
    how = "has expired" if hub.login == "expired" else "is not valid, or no longer"
    text = f"{hub.token} {how}"
    return Finding("hub", "problem", f"{text}: the hub refuses every request with it", _renew(hub))


def _renew(hub: Hub) -> str:
    """A variable goes before what `hf auth login` writes."""
    variable = next((n for n in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN") if n in str(hub.token)), "")
    if variable and str(hub.token).endswith(f"in {variable}"):
        return f"unset {variable} && hf auth login"
    return "hf auth login --force"


def _clock(ahead: float) -> str:
    size = abs(ahead)
    amount = f"{size / 86400:.0f} days" if size > 2 * 86400 else f"{size / 60:.0f} minutes"
    return f"this clock is {amount} {'ahead of' if ahead > 0 else 'behind'} the hub's"
