"""A server's command in the registry's words: which pair, which release, which settings."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from packaging.version import Version

from dflash_deploy.choose import release_of
from dflash_deploy.engine_schema import Engine
from dflash_deploy.explain.read import Command
from dflash_deploy.flag_tables import Given, flag_table, parse
from dflash_deploy.hardware import Hardware
from dflash_deploy.registry import Entry, Registry
from dflash_deploy.schema import Draft, EngineName, KvDtype, Thinking
from dflash_deploy.situation import Situation

_KV: dict[str, KvDtype] = {
    "fp8": "fp8", "fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "bfloat16": "bf16", "bf16": "bf16",
}  # fmt: skip


@dataclass(frozen=True)
class Serving:
    """A `serve` command, read with the flag table of one release."""

    command: Command
    registry: Registry
    name: EngineName
    engine: Engine
    version: Version
    hardware: Hardware
    given: tuple[Given, ...] = field(default=())

    @cached_property
    def meanings(self) -> dict[str, str]:
        return {spelling.flag: spelling.setting for spelling in self.engine.spellings}

    def meaning(self, flag: str) -> str:
        return self.meanings.get(flag, flag)

    @cached_property
    def settings(self) -> dict[str, tuple[str, ...]]:
        found = {self.meaning(item.flag): item.words for item in self.given if item.flag}
        backend = self.config.get("attention_backend")
        return found | ({"draft_attention_backend": (str(backend),)} if backend else {})

    @cached_property
    def config(self) -> dict[str, Any]:
        """vLLM's speculative config, as one JSON or as dotted options."""
        found: dict[str, Any] = {}
        for item in self.given:
            if item.flag != "--speculative-config" or not item.words:
                continue
            key = item.as_written.partition("=")[0].partition(".")[2]
            found |= {key.replace("-", "_"): item.words[0]} if key else _as_dict(item.words[0])
        short = {"--spec-method": "method", "--spec-model": "model",
                 "--spec-tokens": "num_speculative_tokens"}  # fmt: skip
        for item in self.given:
            if item.flag in short and item.words:
                found[short[item.flag]] = item.words[0]
        return found

    @cached_property
    def target(self) -> str | None:
        """The model that is served: said by an option, or as a word of its own."""
        for item in self.given:
            if item.flag in ("--model", "--model-path") and item.words:
                return item.words[0]
        return next((item.words[0] for item in self.given if item.flag is None), None)

    @cached_property
    def draft_id(self) -> str | None:
        said = self.settings.get("draft", ()) or (self.config.get("model"),)
        return str(said[0]) if said and said[0] else None

    @cached_property
    def entry(self) -> Entry | None:
        found = self.registry.names.get((self.target or "").lower())
        return self.registry.entries[found] if found else None

    @cached_property
    def alone(self) -> str | None:
        """The target that a draft, served by itself, proposes for."""
        entry, wanted = self.entry, (self.target or "").lower()
        if entry is None or self.speculates or entry.id.lower() == wanted:
            return None
        return entry.id if any(d.id.lower() == wanted for d in entry.model.drafts) else None

    @cached_property
    def draft(self) -> Draft | None:
        entry, wanted = self.entry, (self.draft_id or self.target or "").lower()
        drafts = entry.model.drafts if entry else []
        return next((draft for draft in drafts if draft.id.lower() == wanted), None)

    @property
    def speculates(self) -> bool:
        return bool(self.draft_id)

    @property
    def pinned(self) -> bool:
        return bool(self.config.get("revision") or self.settings.get("draft_revision"))

    @cached_property
    def block_size(self) -> int | None:
        """Tokens of a block: vLLM says one less."""
        if self.name == "vllm":
            tokens = str(self.config.get("num_speculative_tokens", ""))
            return int(tokens) + 1 if tokens.isdecimal() else None
        other = self.settings.get("--speculative-dflash-block-size", ())
        said = self.settings.get("block_size", other)
        if said and said[0].isdecimal():
            return int(said[0])
        return self.draft.block_size if self.draft else None

    @cached_property
    def thinking(self) -> Thinking | None:
        """What the server does unless a request says otherwise."""
        modes = self.entry.target.thinking if self.entry else None
        if modes is None:
            return None
        said = _as_dict(next(iter(self.settings.get("template_defaults", ())), ""))
        value = said.get(modes.template_key or "")
        return modes.default if not isinstance(value, bool) else ("on" if value else "off")

    @property
    def unsaid_thinking(self) -> bool:
        return bool(self.draft and self.thinking and self.draft.thinking != self.thinking)

    def number(self, setting: str) -> int | None:
        words = self.settings.get(setting, ())
        return int(words[0]) if words and words[0].isdecimal() else None

    @property
    def kv_dtype(self) -> KvDtype:
        return _KV.get(next(iter(self.settings.get("kv_dtype", ())), "auto").lower(), "auto")

    @cached_property
    def situation(self) -> Situation | None:
        """What the rules look at; None where nothing speculates."""
        if not self.speculates:
            return None
        return Situation(
            engine=self.engine, version=self.version,
            target=self.entry.target if self.entry else None, draft=self.draft,
            architecture=self.hardware.architecture, block_size=self.block_size,
            concurrency=self.number("concurrency"), context=self.number("context"),
            tensor_parallel=self.number("tensor_parallel") or 1, kv_dtype=self.kv_dtype,
            thinking=self.thinking, settings=self.settings,
        )  # fmt: skip


def serving(
    command: Command, registry: Registry, version: str | None, hardware: Hardware
) -> Serving:
    """Read the options of a `serve` command as that release, or the newest known, would."""
    assert command.engine is not None  # noqa: S101 - a serve command has one
    engine = registry.engines[command.engine]
    release = release_of(engine, version)
    given = parse(flag_table(command.engine, release), _without_shell(command.argv))
    return Serving(command, registry, command.engine, engine, release, hardware, tuple(given))


def _without_shell(argv: Iterable[str]) -> list[str]:
    return [word for word in argv if word != "\\"]


def _as_dict(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
