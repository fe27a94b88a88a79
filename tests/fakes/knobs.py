"""What a fake engine can be told through the environment, all under FAKE_ENGINE_*."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


def _number(name: str, default: float) -> float:
    return float(os.environ.get(f"FAKE_ENGINE_{name}", default))


def _text(name: str) -> str | None:
    return os.environ.get(f"FAKE_ENGINE_{name}")


def _begun() -> bool:
    """Whether an engine was started here before, and is to be another one now."""
    pids = _text("PIDS")
    return _text("ACCEPTANCE_AGAIN") is not None and pids is not None and Path(pids).exists()


def _bend(said: str | None) -> tuple[str, int] | None:
    kind, _, every = (said or "").partition(":")
    return (kind, int(every or 1)) if kind else None


@dataclass(frozen=True)
class Knobs:
    version: str
    phase_delay: float
    """Seconds between two log lines of the start-up."""
    health_delay: float
    """Seconds a SGLang health check takes: it generates a token."""
    acceptance: float
    """Acceptance length; 1 is an inactive draft. ACCEPTANCE_AGAIN: from the second start on."""
    crash_after: float | None
    """Seconds from the start until the process ends as after a CUDA out-of-memory error."""
    exit_code: int
    """What it ends with when it crashes."""
    die_by_signal: int | None
    """Crash by this signal instead of an exit code."""
    crash_at: str | None
    """Crash after the first line of the start-up that holds this."""
    hang_at: str | None
    """Say nothing more after the first such line, and answer nobody."""
    last_words: str | None
    """What it says when it crashes, instead of a traceback of torch."""
    never_ready: bool
    hold_start: str | None
    """A file without which it does not get ready."""
    hold_answers: str | None
    """A file without which no request under /v1 is answered."""
    ignore_sigterm: bool
    workers: int
    """Child processes, as tensor-parallel workers."""
    setsid_worker: bool
    """One more child, in a session of its own."""
    pids: str | None
    """A file every process of the engine appends its id to."""
    echo: str | None
    """A file that gets argv and the environment as JSON."""
    metrics: bool
    kv_usage: float
    """Share of the cache that is in use, as the metrics say it."""
    broken_version: bool
    """`--version` crashes, as an installation with a missing library does."""
    status: int | None
    """Answer every request under /v1 with this status."""
    answer_delay: float
    """Seconds before a request under /v1 is answered."""
    chunk_delay: float
    """Seconds before each chunk of a streamed answer: a step of the engine."""
    slow_drafts: tuple[float, float, float] | None
    """(draft tokens, requests in flight, seconds): a step with so many or more of both takes so
    much longer; written 7:8:0.05."""
    crash_block: int | None
    """Crash while it starts with blocks of so many tokens."""
    no_usage: bool
    """Leave the usage out of streamed answers."""
    crash_on: int | None
    """Crash when so many requests under /v1 have come."""
    linger: float
    """Seconds from such a crash to the end of the process: the core is gone, the API answers so."""
    fail_every: int
    """Answer every so many-th request with status 500; 0: none."""
    break_stream: bool
    """Close the connection in the middle of a streamed answer."""
    bend: tuple[str, int] | None
    """How a server with a draft answers otherwise than plain decoding (`said.BENDS`), and in every
    so many-th answer: BEND=tie, or tie:2."""
    logprobs: str | None
    """`none`: answer without log-probabilities; `refuse`: answer 400 to who asks for them."""
    stderr_flood: int
    """Bytes of log to write once the server is up."""

    @classmethod
    def read(cls) -> Knobs:
        crash, signal, status = _text("CRASH_AFTER"), _text("DIE_BY_SIGNAL"), _text("STATUS")
        crash_on = _text("CRASH_ON")
        slow = [float(part) for part in (_text("SLOW_DRAFTS") or "").split(":") if part]
        return cls(
            version=os.environ.get("FAKE_ENGINE_VERSION", "0.33.0"),
            phase_delay=_number("PHASE_DELAY", 0.01),
            health_delay=_number("HEALTH_DELAY", 0.05),
            acceptance=_number("ACCEPTANCE_AGAIN" if _begun() else "ACCEPTANCE", 3.0),
            crash_after=float(crash) if crash else None,
            exit_code=int(_number("EXIT_CODE", 1)),
            die_by_signal=int(signal) if signal else None,
            crash_at=_text("CRASH_AT"),
            hang_at=_text("HANG_AT"),
            last_words=_text("LAST_WORDS"),
            never_ready=bool(_text("NEVER_READY")),
            hold_start=_text("HOLD_START"),
            hold_answers=_text("HOLD_ANSWERS"),
            ignore_sigterm=bool(_text("IGNORE_SIGTERM")),
            workers=int(_number("WORKERS", 0)),
            setsid_worker=bool(_text("SETSID_WORKER")),
            pids=_text("PIDS"),
            echo=_text("ECHO"),
            metrics=_text("METRICS") != "0",
            kv_usage=_number("KV_USAGE", 0.25),
            broken_version=bool(_text("BROKEN_VERSION")),
            status=int(status) if status else None,
            answer_delay=_number("ANSWER_DELAY", 0),
            chunk_delay=_number("CHUNK_DELAY", 0),
            slow_drafts=(slow[0], slow[1], slow[2]) if slow else None,
            crash_block=int(_number("CRASH_BLOCK", 0)) or None,
            no_usage=bool(_text("NO_USAGE")),
            crash_on=int(crash_on) if crash_on else None,
            linger=_number("LINGER", 0),
            fail_every=int(_number("FAIL_EVERY", 0)),
            break_stream=bool(_text("BREAK_STREAM")),
            bend=_bend(_text("BEND")),
            logprobs=_text("LOGPROBS"),
            stderr_flood=int(_number("STDERR_FLOOD", 0)),
        )


def release(version: str) -> tuple[int, ...]:
    """`0.5.12.post1` -> (0, 5, 12)."""
    return tuple(int(part) for part in version.split(".") if part.isdigit())
