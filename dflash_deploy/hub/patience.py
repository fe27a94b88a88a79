"""When to ask again, and how long to wait before: tenacity, told what the hub answered."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

T = TypeVar("T")
PASSING = {408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529}


@dataclass(frozen=True)
class Patience:
    """Seconds, but for `tries`; the defaults give up after about a minute without a new byte."""

    tries: int = 7
    """Failures in a row, with nothing gained between them."""
    greetings: int = 2
    """Of them, those to reach a hub that has not answered at all so far."""
    first: float = 1.0
    longest: float = 20.0
    asked: float = 900.0
    """The longest wait that a hub may ask for."""
    answer: float = 10.0
    stall: float | None = None
    """Without a byte for so long, a connection is cut; None: HF_HUB_DOWNLOAD_TIMEOUT."""
    window: float = 30.0
    slowest: int = 512
    """Bytes a second, over a window: below it a connection is as good as stalled."""
    gain: int = 1 << 16
    """Bytes after which failures count anew."""


class Passing(Exception):
    """The hub, or the way to it, is in trouble that may pass; `after`: seconds it asked to wait."""

    def __init__(self, message: str, *, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


class Stopped(Exception):
    """Another file failed, or the user interrupted."""


class Persistence:
    """Asks one thing again and again; whoever makes headway calls `gained`."""

    def __init__(
        self,
        patience: Patience,
        stop: threading.Event,
        on_wait: Callable[[str], None],
        *,
        greets: bool = False,
    ) -> None:
        self.patience = patience
        self.greets = greets
        self.stop = stop
        self.on_wait = on_wait
        self.fruitless = 0

    def gained(self) -> None:
        self.fruitless = 0

    def ask(self, call: Callable[[], T]) -> T:
        """What the call returns, in the end. Raises its last error, or Stopped."""
        from tenacity import Retrying, retry_if_exception

        asking = Retrying(
            retry=retry_if_exception(passes), stop=self._enough, wait=self._pause,
            before_sleep=self._announce, sleep=self._sleep, reraise=True,
        )  # fmt: skip
        return asking(call)

    def _enough(self, state: Any) -> bool:
        self.fruitless += 1
        error = state.outcome.exception()
        tries = self.patience.greetings if self.greets and unheard(error) else self.patience.tries
        return self.fruitless >= tries or (waits(error) or 0) > self.patience.asked

    def _pause(self, state: Any) -> float:
        asked = waits(state.outcome.exception())
        grown = min(self.patience.first * 2.0 ** (self.fruitless - 1), self.patience.longest)
        # apart from each other: several files fail at the same moment
        return asked if asked is not None else grown * (1 + random.random() / 4)  # noqa: S311

    def _announce(self, state: Any) -> None:
        pause = state.next_action.sleep
        self.on_wait(f"{said(state.outcome.exception())}; again in {pause:.0f} s")

    def _sleep(self, seconds: float) -> None:
        if self.stop.wait(seconds):
            raise Stopped


def passes(error: BaseException) -> bool:
    """Whether the same request may succeed in a while."""
    import httpx
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    if isinstance(error, OfflineModeIsEnabled):
        return False
    if isinstance(error, httpx.TransportError):
        return not isinstance(error, httpx.UnsupportedProtocol) and "CERTIFICATE" not in str(error)
    if isinstance(error, HfHubHTTPError):
        return error.response.status_code in PASSING
    return isinstance(error, Passing)


def unheard(error: BaseException | None) -> bool:
    """Whether there was no answer of any kind."""
    import httpx

    return isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ReadTimeout)


def waits(error: BaseException | None) -> float | None:
    """Seconds that the hub asked to wait for; None: it did not say."""
    if isinstance(error, Passing):
        return error.after
    response = getattr(error, "response", None)
    return retry_after(response.headers) if response is not None else None


def retry_after(headers: Any) -> float | None:
    """From `Retry-After`, seconds or a date, or the rate limit that the hub says is used up."""
    from datetime import UTC, datetime

    from huggingface_hub.utils import parse_ratelimit_headers  # type: ignore[attr-defined]

    value = str(headers.get("Retry-After", "")).strip()
    if value.isascii() and value.isdecimal():
        return float(value[:9])
    if value:
        try:
            return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
        except (ValueError, TypeError):
            return None
    limit = parse_ratelimit_headers(headers)
    return float(limit.reset_in_seconds) if limit and limit.remaining == 0 else None


def said(error: BaseException | None) -> str:
    """One line for a failure that passes."""
    import httpx

    response = getattr(error, "response", None)
    if response is not None:
        return f"the hub answered {response.status_code}"
    if isinstance(error, httpx.ReadTimeout):
        return "the connection stalled"
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return "the hub cannot be reached"
    if isinstance(error, httpx.TransportError):
        return "the connection broke"
    return str(error)
