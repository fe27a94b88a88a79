"""One decode thread: a queue in front, and the running requests together, a cycle each."""

from __future__ import annotations

import logging
import threading
from collections import deque
from concurrent.futures import Future, wait

from dflash_deploy.server.api_error import ApiError, decoding_failed, queue_full, shutting_down
from dflash_deploy.server.metrics import Metrics
from dflash_deploy.server.sequence import Chunk, Report, RequestState
from dflash_deploy.server.worker import Worker
from dflash_deploy.speculative.types import Decoder, Step

log = logging.getLogger(__name__)
FAILED = "%s failed"


class Scheduler:
    """First come, first served into `max_active` places, then in rounds: a cycle of each request,
    in one pass of the decoder where it can.

    Decoding runs in one worker's thread. `submit`, `abandon` and `stop` may be called from any
    other. A request hears of its progress, and of its failure, through its `post`.
    """

    def __init__(
        self, decoder: Decoder, metrics: Metrics, *, max_active: int, max_waiting: int
    ) -> None:
        self._decoder = decoder
        self._metrics = metrics
        self._max_active = max_active
        self._max_waiting = max_waiting
        self._waiting: deque[RequestState] = deque()
        self._active: list[RequestState] = []
        self._stopping = False
        self._wake = threading.Condition()
        self._decoding: Future[None] | None = None

    def start(self, worker: Worker) -> None:
        """Decode in the worker's thread, until `stop`."""
        self._decoding = worker.submit(self._run)

    def stop(self) -> None:
        """Refuse new requests and answer all others 503; returns at once, a cycle may still run."""
        with self._wake:
            if self._stopping:
                return
            self._stopping = True
            self._active.extend(self._waiting)
            self._waiting.clear()
            for request in self._active:
                request.abandoned = True
                _post(request, shutting_down())
            self._wake.notify()

    def join(self, timeout: float) -> bool:
        """Wait for the decoding to end; false if it is still inside a cycle after `timeout`."""
        return self._decoding is None or bool(wait([self._decoding], timeout).done)

    @property
    def healthy(self) -> bool:
        return self._decoding is not None and not self._stopping

    def submit(self, request: RequestState) -> None:
        """Queue it. Raises ApiError: 429 if the queue is full, 503 when shutting down or dead."""
        with self._wake:
            if not self.healthy:
                raise shutting_down()
            if len(self._active) + len(self._waiting) >= self._max_active + self._max_waiting:
                raise queue_full(len(self._waiting))
            self._waiting.append(request)
            self._show_queue()
            self._wake.notify()

    def abandon(self, request: RequestState) -> None:
        """Nobody waits for it any more: it runs no further cycle. Harmless on a finished one."""
        with self._wake:
            request.abandoned = True
            if request in self._waiting:
                self._waiting.remove(request)
                self._metrics.gave_up("abort")
                self._show_queue()

    def _run(self) -> None:
        try:
            while self._admit():
                self._round()
        except Exception:
            log.exception("decoding ended by itself")
            raise
        finally:  # told to, or by a bug of its own: either way nobody waits for ever
            self.stop()
            for request in tuple(self._active):
                self._drop(request)
                self._metrics.gave_up("abort")

    def _admit(self) -> bool:
        """Fill the free places, waiting for work if there is none; false when it is time to end."""
        with self._wake:
            self._wake.wait_for(lambda: self._stopping or self._active or self._waiting)
            while self._waiting and len(self._active) < self._max_active:
                request = self._waiting.popleft()
                self._active.append(request)
                self._metrics.began(len(request.job.prompt_ids))
            self._show_queue()
            return not self._stopping

    def _round(self) -> None:
        sequences = []
        for request in tuple(self._active):
            if request.abandoned:
                self._drop(request)
                self._metrics.gave_up("abort")
                continue
            try:
                sequences.append((request, request.steps(self._decoder)))
            except Exception:
                log.exception(FAILED, request.job.request_id)
                self._fail(request)
        steps = self._decoder.together([sequence for _, sequence in sequences])
        for (request, _), step in zip(sequences, steps, strict=True):
            self._turn(request, step)

    def _turn(self, request: RequestState, step: Step | Exception | None) -> None:
        if isinstance(step, Exception):
            log.error(FAILED, request.job.request_id, exc_info=step)
            self._fail(request)
            return
        try:
            chunk = request.take(step)
        except Exception:
            log.exception(FAILED, request.job.request_id)
            self._fail(request)
            return
        self._pass_on(request, chunk)

    def _fail(self, request: RequestState) -> None:
        self._drop(request)
        self._metrics.gave_up("error")
        _post(request, decoding_failed())

    def _pass_on(self, request: RequestState, chunk: Chunk) -> None:
        self._metrics.stepped(chunk.step, len(chunk.token_ids))
        if chunk.report is not None:
            # Counted and freed before the client hears of it: what it reads next is up to date.
            self._drop(request)
            self._metrics.finished(chunk.report)
            _log_end(request.job.request_id, chunk.report)
        _post(request, chunk)

    def _drop(self, request: RequestState) -> None:
        with self._wake:
            self._active.remove(request)
            self._show_queue()
        try:
            request.close()
        except Exception:
            log.exception("%s could not be closed", request.job.request_id)

    def _show_queue(self) -> None:
        self._metrics.queue(len(self._active), len(self._waiting))


def _post(request: RequestState, news: Chunk | ApiError) -> None:
    try:
        request.post(news)
    except RuntimeError:  # its event loop is closed: nobody listens
        request.abandoned = True


def _log_end(request_id: str, report: Report) -> None:
    log.info(
        "%s: %d tokens of prompt, %d of answer (%s) in %.2f s, acceptance length %.2f",
        request_id,
        report.prompt_tokens,
        report.completion_tokens,
        report.finish_reason,
        report.first_token + report.decode,
        report.mean_acceptance_length,
    )
