"""From a parsed request to a job: names, prompt tokens, room in the context, sampling."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dflash_deploy.server.api_error import invalid, model_not_found, too_long
from dflash_deploy.server.prompts import prompt_of, template_messages
from dflash_deploy.server.sequence import Job
from dflash_deploy.server.text import Text
from dflash_deploy.server.wire import Body, ChatBody, CompletionBody
from dflash_deploy.speculative.types import Sampling

COMPLETION_TOKENS = 16  # OpenAI's default of the legacy endpoint; a chat gets the context's rest


@dataclass(frozen=True)
class Intake:
    """What a request is held against."""

    names: tuple[str, ...]
    max_model_len: int
    text: Text
    chat_template_kwargs: Mapping[str, Any]

    def check_name(self, name: str) -> None:
        if name not in self.names:
            raise model_not_found(name, self.names)

    def chat_job(self, body: ChatBody) -> Job:
        options = dict(self.chat_template_kwargs)
        if body.reasoning_effort is not None:
            options["reasoning_effort"] = body.reasoning_effort
        options |= body.chat_template_kwargs or {}
        ids = self.text.encode_chat(template_messages(body), options)
        limit = body.max_completion_tokens or body.max_tokens
        return self._job("chatcmpl-", body, ids, limit, "messages")

    def completion_job(self, body: CompletionBody) -> Job:
        prompt = prompt_of(body)
        ids = self.text.encode(prompt) if isinstance(prompt, str) else self._known(prompt)
        if not ids:
            raise invalid("the prompt is empty", "prompt")
        room = max(self.max_model_len - len(ids), 1)
        limit = body.max_tokens or min(COMPLETION_TOKENS, room)
        return self._job("cmpl-", body, ids, limit, "prompt")

    def _job(
        self, prefix: str, body: Body, ids: list[int], limit: int | None, prompt_param: str
    ) -> Job:
        room = self.max_model_len - len(ids)
        if room < 1:
            raise too_long(len(ids), 0, self.max_model_len, prompt_param)
        if limit is not None and limit > room:
            raise too_long(len(ids), limit, self.max_model_len, "max_tokens")
        return Job(
            request_id=prefix + uuid.uuid4().hex,
            prompt_ids=tuple(ids),
            sampling=self._sampling(body, limit or room),
            stops=body.stops,
            speculate=body.speculative is not False,
        )

    def _sampling(self, body: Body, max_new_tokens: int) -> Sampling:
        defaults = self.text.defaults
        top_k = defaults.top_k if body.top_k is None else body.top_k
        own = frozenset() if body.ignore_eos else self.text.stop_token_ids
        return Sampling(
            max_new_tokens=max_new_tokens,
            temperature=defaults.temperature if body.temperature is None else body.temperature,
            top_p=defaults.top_p if body.top_p is None else body.top_p,
            top_k=max(top_k, 0),  # vLLM's -1 is off, as 0 is
            seed=body.seed,
            stop_token_ids=own | frozenset(body.stop_token_ids or ()),
            logprobs=body.alternatives,
        )

    def _known(self, ids: list[int]) -> list[int]:
        for i, token in enumerate(ids):
            if not 0 <= token < self.text.vocabulary:
                raise invalid(
                    f"`prompt[{i}]`: {token} is no token of this model "
                    f"(0 to {self.text.vocabulary - 1})",
                    f"prompt[{i}]",
                )
        return ids
