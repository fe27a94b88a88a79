"""The target's tokenizer, chat template and generation defaults."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dflash_deploy.server.api_error import invalid
from dflash_deploy.server.spelling import Spelling


@dataclass(frozen=True)
class SamplingDefaults:
    """What a request that does not say gets; a model's generation config may know better."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0


class Text(Protocol):
    """Text to tokens and back, for one model."""

    @property
    def vocabulary(self) -> int:
        """Token ids are below this."""

    @property
    def stop_token_ids(self) -> frozenset[int]:
        """The tokens that end an answer."""

    @property
    def defaults(self) -> SamplingDefaults: ...

    def encode(self, text: str) -> list[int]:
        """A bare prompt, with the special tokens the model wants around one."""

    def encode_chat(
        self, messages: Sequence[Mapping[str, str]], options: Mapping[str, Any]
    ) -> list[int]:
        """A conversation, rendered up to the assistant's turn. Raises ApiError."""

    def decode(self, ids: Sequence[int]) -> str:
        """Without special tokens."""

    def token_bytes(self, token: int) -> bytes:
        """One token as it is written, also where it is half a character or a special token."""


class HubText:
    """`Text` over the files of a transformers model: a folder, or a hub id and a revision."""

    def __init__(self, model: str, revision: str | None) -> None:
        from transformers import AutoTokenizer

        self._tokenizer = AutoTokenizer.from_pretrained(model, revision=revision)
        self._spelling = Spelling(self._tokenizer)
        config = _generation_config(model, revision)
        self.vocabulary: int = len(self._tokenizer)
        self.stop_token_ids = _stop_tokens(self._tokenizer.eos_token_id, config.get("eos_token_id"))
        self.defaults = SamplingDefaults(
            **{
                name: config[name]
                for name in ("temperature", "top_p", "top_k")
                if config.get(name) is not None
            }
        )
        signature = inspect.signature(self._tokenizer.apply_chat_template)
        self._reserved = frozenset(signature.parameters)

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text)
        return ids

    def encode_chat(
        self, messages: Sequence[Mapping[str, str]], options: Mapping[str, Any]
    ) -> list[int]:
        if not self._tokenizer.chat_template:
            raise invalid("this model has no chat template; use /v1/completions", "messages")
        # The template itself, tokenization and the like are the server's to decide.
        for name in sorted(self._reserved & options.keys()):
            raise invalid(f"`{name}` cannot be set by a request", f"chat_template_kwargs.{name}")
        text = self._render([dict(message) for message in messages], options)
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def token_bytes(self, token: int) -> bytes:
        return self._spelling(token)

    def _render(self, messages: list[dict[str, str]], options: Mapping[str, Any]) -> str:
        from jinja2 import TemplateError

        try:
            text: str = self._tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, **options
            )
        except (TemplateError, TypeError, ValueError) as error:
            # Templates raise on roles and orders they do not know, and trip over odd options.
            raise invalid(f"the chat template refused this: {error}", "messages") from None
        return text


def _generation_config(model: str, revision: str | None) -> dict[str, Any]:
    from transformers import GenerationConfig

    try:
        config = GenerationConfig.from_pretrained(model, revision=revision)
    except OSError:  # many models have none
        return {}
    values: dict[str, Any] = config.to_dict()
    return values


def _stop_tokens(*sources: int | Iterable[int] | None) -> frozenset[int]:
    ids: set[int] = set()
    for source in sources:
        if isinstance(source, int):
            ids.add(source)
        elif source is not None:
            ids.update(source)
    return frozenset(ids)
