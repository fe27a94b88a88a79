"""A streamed answer read for its figures: when its first token came, and what the server counted.

Under load the client reads thousands of chunks a second. Only those that may hold a figure are
decoded: all until the first token, and from then on those in which one of a few keys has a value.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec

from dflash_deploy.measure.connection import message_of
from dflash_deploy.measure.sample import Cycles

# inside a text the quotes would be escaped
_TELLING = re.compile(rb'"(?:usage|metrics|sglext|error|finish_reason)":\s*[{"\[]')
_ENDED_BADLY = {"abort", "error"}

NO_USAGE = "the server sent no usage: its tokens cannot be counted"


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    text: str | None = None
    token_ids: list[int] | None = None
    finish_reason: str | None = None

    @property
    def has_token(self) -> bool:
        said = self.delta or _Delta()
        spoken = said.content or said.reasoning or said.reasoning_content
        return bool(spoken or self.text or self.token_ids)


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


Count = Annotated[int, msgspec.Meta(ge=0, le=2**31)]
"""Tokens. No answer has more, and nothing is counted backwards."""


class _Usage(msgspec.Struct):
    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    prompt_tokens_details: _Details | None = None


class _Event(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    metrics: dict[str, Any] | None = None
    sglext: dict[str, Any] | None = None
    error: Any = None


_DECODER = msgspec.json.Decoder(_Event)


class StreamReader:
    """Fed with bytes as they come; holds what they said."""

    def __init__(self) -> None:
        self.first: float | None = None
        self.usage: _Usage | None = None
        self.cycles: Cycles | None = None
        self.error: str | None = None
        self.done = False
        self._began = False
        self._open = b""

    def feed(self, data: bytes, now: float) -> None:
        *lines, self._open = (self._open + data).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                self._began = True
                self._event(line[5:].strip(), now)

    @property
    def fault(self) -> str | None:
        """Why this is no whole answer."""
        if self.error:
            return self.error
        if not self.done:
            return "the answer broke off" if self._began else "what came is no streamed answer"
        if self.usage is None:
            return NO_USAGE
        if self.usage.completion_tokens == 0 or self.first is None:
            return "an answer without a token"
        return None

    @property
    def cached_tokens(self) -> int | None:
        details = self.usage.prompt_tokens_details if self.usage else None
        return details.cached_tokens if details else None

    def _event(self, data: bytes, now: float) -> None:
        if data == b"[DONE]":
            self.done = True
        elif self.first is None or _TELLING.search(data):
            try:
                self._read(_DECODER.decode(data), now)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                odd = isinstance(error, msgspec.ValidationError)
                what = "no part of an answer" if odd else "not JSON"
                self.error = f"{what}: {data[:80].decode('utf-8', 'replace')}"

    def _read(self, event: _Event, now: float) -> None:
        if event.error:
            said = message_of(msgspec.json.encode({"error": event.error}))
            self.error = f"the server stopped answering: {said}"
        for choice in event.choices:
            if self.first is None and choice.has_token:
                self.first = now
            if choice.finish_reason in _ENDED_BADLY:
                self.error = f"the server ended the answer: {choice.finish_reason}"
        self.usage = event.usage or self.usage
        self.cycles = reported(event.metrics, event.sglext) or self.cycles


def reported(metrics: dict[str, Any] | None, sglext: dict[str, Any] | None) -> Cycles | None:
    """Speculation of one request in vLLM's words (the embedded server's too), or in SGLang's."""
    ours = (metrics or {}).get("speculative_decoding")
    if ours and ours.get("num_spec_steps"):
        drafted = ours.get("num_draft_tokens") or 0
        return Cycles(ours["num_spec_steps"], drafted, ours.get("num_accepted_draft_tokens") or 0)
    theirs = (sglext or {}).get("spec_tokens_details")
    if theirs and theirs.get("spec_verify_ct"):
        cycles = theirs["spec_verify_ct"]
        accepted = theirs.get("spec_num_correct_drafts")
        if accepted is None:  # named otherwise before 0.5.13; the length is there in every release
            accepted = ((theirs.get("spec_accept_length") or 1) - 1) * cycles
        return Cycles(cycles, theirs.get("spec_num_proposed_drafts") or 0, accepted)
    return None
