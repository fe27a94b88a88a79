from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest

from dflash_deploy.errors import Interrupted, LaunchError
from dflash_deploy.launch.health import time_allowed, wait_ready
from dflash_deploy.launch.signs import Signs
from dflash_deploy.memory import Fit
from dflash_deploy.schema import EngineName
from tests.fakes.openai import HTTPServer


class Stub:
    """A process that ends, or is asked to stop, after so many seconds."""

    engine: EngineName = "vllm"
    phase: str | None = "compiling"
    tail = ("the last line",)
    signs = Signs()

    def __init__(self, *, dies: float | None = None, asked: float | None = None) -> None:
        self._began, self._dies, self._asked = time.monotonic(), dies, asked

    def _past(self, seconds: float | None) -> bool:
        return seconds is not None and time.monotonic() - self._began > seconds

    def poll(self) -> int | None:
        return 1 if self._past(self._dies) else None

    @property
    def stop_asked(self) -> bool:
        return self._past(self._asked)


@pytest.fixture
def url() -> Iterator[str]:
    """Answers 503 twice, then 200 after a while."""
    answers = iter([503, 503])

    class Slow(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            time.sleep(0.1)
            self.send_response(next(answers, 200))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Slow) as server:
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/health"
        server.shutdown()


NOBODY = "http://127.0.0.1:9/health"


def test_503_is_not_ready_and_200_is(url: str) -> None:
    phases: list[str] = []

    took = wait_ready(Stub(), url, 10, lambda phase, _: phases.append(phase))

    assert 0.3 < took < 3
    assert set(phases) == {"compiling"}


def test_large_weights_get_more_time() -> None:
    def fit(gib: float) -> Fit:
        return Fit(budget=80, target=gib, draft=2, passes=1, cache=1, request=1)

    assert time_allowed(None, 1) == time_allowed(fit(16), 1) == 1800
    assert time_allowed(fit(70), 8) == 900 + 15 * 72 * 8


def test_a_proxy_of_the_environment_is_not_asked(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)

    wait_ready(Stub(), url, 10)


def test_the_end_of_the_process_ends_the_wait_at_once() -> None:
    began = time.monotonic()

    with pytest.raises(LaunchError, match="vLLM ended with exit code 1 before it was ready") as at:
        wait_ready(Stub(dies=0.3), NOBODY, 60)

    assert time.monotonic() - began < 0.8
    assert at.value.detail == "the last line"


def test_a_request_to_stop_is_no_failure() -> None:
    with pytest.raises(Interrupted):
        wait_ready(Stub(asked=0.1), NOBODY, 60)


def test_the_time_out_says_how_to_give_it_more() -> None:
    with pytest.raises(LaunchError, match=r"not ready after 0\.4 s. It was last compiling") as at:
        wait_ready(Stub(), NOBODY, 0.4)

    assert at.value.hint == "--timeout 1"
    assert at.value.detail is not None
    assert "the last line" in at.value.detail
