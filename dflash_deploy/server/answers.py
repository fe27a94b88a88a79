"""Response shapes: OpenAI's objects, with vLLM's per-request acceptance beside them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from dflash_deploy.server.logprobs import TokenBytes, of_chat, of_completion
from dflash_deploy.server.sequence import Chunk, Report


@dataclass(frozen=True)
class Answer:
    """One response, whole or in chunks; `chat` tells the two endpoints' shapes apart."""

    request_id: str
    model: str
    chat: bool
    include_usage: bool = False
    prompt_ids: tuple[int, ...] | None = None  # set: the client wants token ids as well
    spell: TokenBytes | None = None  # set: the client wants log-probabilities as well
    tell_steps: bool = False  # the client wants to know what each cycle took from the draft
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, chunks: list[Chunk], report: Report) -> dict[str, Any]:
        text = "".join(chunk.text for chunk in chunks)
        said = {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
        choice = self._choice(said, report.finish_reason, chunks)
        kind = "chat.completion" if self.chat else "text_completion"
        extra = {} if self.prompt_ids is None else {"prompt_token_ids": list(self.prompt_ids)}
        return self._object(kind, [choice]) | extra | usage_and_metrics(report)

    def opening(self) -> dict[str, Any] | None:
        """The chunk before the first text, where the shape has one."""
        if not self.chat:
            return None
        choice = self._choice({"delta": {"role": "assistant", "content": ""}}, None, [])
        extra = {} if self.prompt_ids is None else {"prompt_token_ids": list(self.prompt_ids)}
        return self._chunk([choice]) | extra

    def piece(self, chunk: Chunk) -> dict[str, Any] | None:
        """One cycle's chunk; None if it has nothing to show (its text is still held back)."""
        if not chunk.text and chunk.report is None and not self._tells_tokens:
            return None
        if self.chat:
            said: dict[str, Any] = {"delta": {"content": chunk.text} if chunk.text else {}}
        else:
            said = {"text": chunk.text}
        reason = None if chunk.report is None else chunk.report.finish_reason
        choice = self._choice(said, reason, [chunk])
        return self._chunk([choice | {"dflash": told(chunk)} if self.tell_steps else choice])

    def closing(self, report: Report) -> dict[str, Any] | None:
        """The usage chunk, for those who asked for it."""
        if not self.include_usage:
            return None
        return self._chunk([]) | usage_and_metrics(report)

    @property
    def _tells_tokens(self) -> bool:
        return self.prompt_ids is not None or self.spell is not None or self.tell_steps

    def _choice(
        self, said: dict[str, Any], reason: str | None, chunks: list[Chunk]
    ) -> dict[str, Any]:
        ids = [token for chunk in chunks for token in chunk.token_ids]
        logprobs = self._logprobs(ids, chunks)
        choice = {"index": 0, **said, "logprobs": logprobs, "finish_reason": reason}
        return choice if self.prompt_ids is None else {**choice, "token_ids": ids}

    def _logprobs(self, ids: list[int], chunks: list[Chunk]) -> dict[str, Any] | None:
        if self.spell is None or not chunks:
            return None
        chances = [chance for chunk in chunks for chance in chunk.chances]
        return (of_chat if self.chat else of_completion)(ids, chances, self.spell)

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        usage = {"usage": None} if self.include_usage else {}
        return self._object(kind, choices) | usage

    def _object(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self.request_id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }


def told(chunk: Chunk) -> dict[str, Any]:
    """One cycle, as this server alone tells it: its counts, and its text by who proposed it."""
    return {
        "drafted": chunk.step.drafted,
        "accepted": chunk.step.accepted,
        "committed": len(chunk.token_ids),
        "pieces": [
            {"from": "draft" if span.drafted else "target", "text": span.text}
            for span in chunk.spans
        ],
    }


def usage_and_metrics(report: Report) -> dict[str, Any]:
    return {
        "usage": {
            "prompt_tokens": report.prompt_tokens,
            "completion_tokens": report.completion_tokens,
            "total_tokens": report.prompt_tokens + report.completion_tokens,
            "completion_tokens_details": {
                # A stop string may cut the last block: what the client never got is not its usage.
                "accepted_prediction_tokens": min(report.accepted, report.completion_tokens),
            },
        },
        "metrics": {
            "time_to_first_token_seconds": report.first_token,
            "decode_seconds": report.decode,
            "speculative_decoding": _speculation(report),
        },
    }


def _speculation(report: Report) -> dict[str, Any] | None:
    """The object vLLM has under this name; None where nothing was drafted."""
    if not report.drafted:
        return None
    return {
        "mean_acceptance_length": report.mean_acceptance_length,
        "draft_acceptance_rate": report.accepted / report.drafted,
        "acceptance_histogram": list(report.accepted_by_step),
        "num_spec_steps": report.spec_steps,
        "num_accepted_draft_tokens": report.accepted,
        "num_draft_tokens": report.drafted,
        "num_spec_tokens": len(report.accepted_by_step) - 1,
    }


def models(names: tuple[str, ...], max_model_len: int, created: int) -> dict[str, Any]:
    return {"object": "list", "data": [model(name, max_model_len, created) for name in names]}


def model(name: str, max_model_len: int, created: int) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": "dflash-deploy",
        "root": name,
        "parent": None,
        "max_model_len": max_model_len,
    }
