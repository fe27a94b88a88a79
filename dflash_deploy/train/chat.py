"""The target's tokenizer: a conversation as it is served, and a token to stand for a mask."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dflash_deploy.errors import DownloadError, Unsupported, UsageError
from dflash_deploy.speculative.snapshot import refusal
from dflash_deploy.train.recipe import MASK_HINT, Recipe

UNUSED = ("mask", "reserved", "unused", "empty", "pad")
"""Parts of the names of tokens that no text contains; the first found is the mask."""
THINKING = "enable_thinking"
MARK = "\u2042"
"""Stands for what a user says; no template contains it."""


class Chat:
    """Text to tokens as a server does it. Raises DownloadError and Unsupported."""

    def __init__(self, recipe: Recipe) -> None:
        from transformers import AutoTokenizer

        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(
                recipe.model, revision=recipe.revision, trust_remote_code=recipe.trust_remote_code
            )
        except (OSError, ValueError, KeyError, ImportError) as error:
            if _lacks_tokenizer(Path(recipe.model)):
                raise DownloadError(
                    f"{recipe.model} has no tokenizer",
                    hint="put its files beside the weights: tokenizer.json, tokenizer_config.json",
                ) from error
            failed = f"the tokenizer of {recipe.model} could not be loaded"
            raise refusal(recipe.model, recipe.revision, error, failed) from error
        self._target = recipe.target
        template = self._tokenizer.chat_template
        if not template:
            raise Unsupported(
                f"{recipe.target} has no chat template: a draft is trained on conversations",
                hint="put the template of its instruct model beside its weights, as"
                " chat_template.jinja",
            )
        # a draft is trained for one mode: plain answers
        self.options: dict[str, object] = {THINKING: False} if THINKING in str(template) else {}

    def prompt(self, messages: Sequence[dict[str, str]]) -> list[int]:
        return self.text(self.rendered(messages))

    def rendered(self, messages: Sequence[dict[str, str]], *, answer: bool = True) -> str:
        """As the template has it, up to where an answer begins. Raises UsageError, Unsupported."""
        from jinja2 import TemplateError, TemplateSyntaxError

        try:
            text: str = self._tokenizer.apply_chat_template(
                list(messages), tokenize=False, add_generation_prompt=answer, **self.options
            )
        except TemplateSyntaxError as error:
            raise Unsupported(
                f"the chat template of {self._target} is broken: {error}",
                hint="put the template of its instruct model beside its weights, as"
                " chat_template.jinja",
            ) from error
        except (TemplateError, TypeError, ValueError) as error:
            roles = ", ".join(each["role"] for each in messages)
            raise UsageError(
                f"the chat template of {self._target} refuses messages of {roles}: {error}",
                hint="other --prompts, and another --output",
            ) from error
        return text

    def user_turn(self, role: str | None) -> list[int]:
        """A conversation up to where the user begins to speak.

        `role`: its system prompt, left out where the template takes none.
        """
        begun = [{"role": "user", "content": MARK}]
        try:
            said = [] if role is None else [{"role": "system", "content": role}]
            text = self.rendered([*said, *begun], answer=False)
        except UsageError:
            if role is None:
                raise
            text = self.rendered(begun, answer=False)
        return self.text(text[: text.index(MARK)])

    def said(self, ids: Sequence[int]) -> str:
        """Tokens as text, without those that no text contains."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True)
        return text.strip()

    def text(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def ends(self, model: Any) -> frozenset[int]:
        """The tokens that end an answer, as the tokenizer and the generation config say."""
        said = getattr(model.generation_config, "eos_token_id", None)
        several = said if isinstance(said, list) else [said]
        return frozenset(
            token for token in (self._tokenizer.eos_token_id, *several) if token is not None
        )

    @property
    def end(self) -> int | None:
        """The token behind an answer that is complete."""
        found: int | None = self._tokenizer.eos_token_id
        return found

    def mask_token(self, asked: int | None, vocabulary: int) -> int:
        """A token that text does not contain. Raises UsageError if none can be told."""
        if asked is not None:
            if asked < vocabulary:
                return asked
            raise UsageError(
                f"--mask-token {asked}: the target has {vocabulary} tokens",
                hint=MASK_HINT,
            )
        special = {
            token.content: number
            for number, token in self._tokenizer.added_tokens_decoder.items()
            if token.special and number < vocabulary
        }
        endings = {self._tokenizer.eos_token_id, self._tokenizer.bos_token_id}
        for part in UNUSED:
            for name in sorted(special, key=special.__getitem__):
                if part in name.lower() and special[name] not in endings:
                    return special[name]
        raise UsageError(
            "none of the target's special tokens is known to be unused",
            hint=MASK_HINT,
        )


def _lacks_tokenizer(folder: Path) -> bool:
    """transformers names packages then, that would not help."""
    names = ("tokenizer*", "*vocab*", "*.model", "*.tiktoken")
    return folder.is_dir() and not any(any(folder.glob(name)) for name in names)
