"""A server's command in the registry's words: which pair, which release, which settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from packaging.version import Version

from dflash_deploy.choose import release_of
from dflash_deploy.engine_schema import DeadSwitch, Engine
from dflash_deploy.explain import speculation
from dflash_deploy.explain.container import Port
from dflash_deploy.explain.folders import BY_DRAFT, Taken, draft_told, is_folder, targets_told
from dflash_deploy.explain.judged import as_part
from dflash_deploy.explain.read import Command
from dflash_deploy.flag_tables import Given, flag_table, parse
from dflash_deploy.hardware import Hardware
from dflash_deploy.reach import within
from dflash_deploy.registry import Entry, Registry
from dflash_deploy.resources import registry_root
from dflash_deploy.schema import Draft, EngineName, KvDtype, Thinking
from dflash_deploy.situation import Situation, by_meaning, counted, said_kv_dtype, said_thinking

_COUNTED = frozenset({"context", "batched_tokens"})


@dataclass(frozen=True)
class Serving:
    """A `serve` command, read with the flag table of one release."""

    command: Command
    registry: Registry
    name: EngineName
    engine: Engine
    version: Version
    hardware: Hardware
    given: tuple[Given, ...] = ()
    """Those of its file first: what is typed has the last word."""
    filed: tuple[Given, ...] = ()
    """Those that stand in its file."""

    def is_filed(self, item: Given) -> bool:
        return any(item is other for other in self.filed)

    def meaning(self, flag: str | None) -> str:
        return self.engine.meanings.get(flag or "", flag or "")

    @cached_property
    def settings(self) -> dict[str, tuple[str, ...]]:
        """What was said, by meaning."""
        found = by_meaning(self.engine, self.given)
        for name in _COUNTED & found.keys():
            found[name] = tuple(map(_counted, found[name]))
        return found

    @cached_property
    def final(self) -> tuple[Given, ...]:
        """The options that count: of one that was said twice, the last."""
        last = {_name(item): at for at, item in enumerate(self.given) if item.flag}
        return tuple(item for at, item in enumerate(self.given) if at in last.values())

    def repeated(self, item: Given) -> bool:
        """Whether the same option is said again further on."""
        return item.flag is not None and not any(item is counts for counts in self.final)

    @cached_property
    def config(self) -> dict[str, Any]:
        """vLLM's speculative config, as one JSON or as dotted options."""
        return speculation.config(self.given) if self.name == "vllm" else {}

    @cached_property
    def target(self) -> str | None:
        """The model that is served: said by an option, or as a word of its own."""
        named = self._naming_target
        return named[-1].words[0] if named else None

    @cached_property
    def _naming_target(self) -> list[Given]:
        """What names the model, the one that counts last: a word of its own before an option."""
        options = [i for i in self.given if i.flag in ("--model", "--model-path") and i.words]
        typed = [item for item in options if not self.is_filed(item)]
        bare = [i for i in self.given if i.flag is None and not self.is_filed(i)][:1]
        return options if typed or not bare else bare

    @property
    def target_part(self) -> str:
        """The target as it was written, with its option where it has one."""
        named = self._naming_target
        return as_part(named[-1]) if named else "the target"

    @property
    def target_path(self) -> str | None:
        """The target, if it is a folder."""
        return self.target if is_folder(self.target or "") else None

    @cached_property
    def itself(self) -> bool:
        """Whether the model is a draft that says which target it is for: vLLM serves both then.

        Drafts in the layout of speculators do. Source: vLLM 0.20.0 to 0.33.0
        transformers_utils/config.py, `maybe_override_with_speculators`.
        """
        wanted = (self.target or "").lower()
        found = self.registry.names.get(wanted)
        drafts = self.registry.entries[found].model.drafts if found else []
        layouts = {draft.format for draft in drafts if draft.id.lower() == wanted}
        return self.name == "vllm" and "speculators" in layouts

    @cached_property
    def draft_id(self) -> str | None:
        """The draft's hub id, also where a folder is known to be it; else as it was said."""
        if self.itself:
            return self.target
        if self.taken_draft:
            return self.taken_draft.id
        return self._of_this_machine.get(self.named_draft or "", self.named_draft)

    @cached_property
    def named_draft(self) -> str | None:
        """The draft as it was said: a hub id or a folder."""
        said = self.settings.get("draft", ()) or (self.config.get("model"),)
        return str(said[0]) if said and said[0] else None

    @property
    def draft_path(self) -> str | None:
        """The folder of the draft that is served, if something told which draft it is."""
        return self.named_draft if self.taken_draft and self.draft else None

    @cached_property
    def _of_this_machine(self) -> dict[str, str]:
        """Drafts that are known by their folders."""
        entries, root = self.registry.entries.values(), registry_root()
        drafts = [draft for entry in entries for draft in entry.model.drafts]
        return {str(root / draft.path): draft.id for draft in drafts if draft.path}

    @cached_property
    def taken_draft(self) -> Taken | None:
        """What a draft's folder that no entry names is taken for."""
        named = self.named_draft or ""
        if self.itself or not is_folder(named) or named in self._of_this_machine:
            return None
        known = next((told.id for told in self._told), self.target)
        return draft_told(self.registry, named, self._entry_of(known))

    @cached_property
    def _told(self) -> list[Taken]:
        """What the target's folder is, by all but its draft."""
        served = self.settings.get("served_names", ())
        return targets_told(self.registry, self.target_path, served)

    @cached_property
    def taken_target(self) -> Taken | None:
        """What the target's folder is taken for.

        A draft that is named for certain has the first word; a folder's, which may be that of
        another target, the last.
        """
        by_draft = self._entry_of(self.draft_id) if self.target_path else None
        drafts = [Taken(by_draft.id, BY_DRAFT)] if by_draft else []
        told = [*self._told, *drafts] if self.taken_draft else [*drafts, *self._told]
        return told[0].though(each for each in told if each not in drafts) if told else None

    @cached_property
    def entry(self) -> Entry | None:
        """By the target; for a folder, by what it is taken for."""
        return self._entry_of(self.taken_target.id if self.taken_target else self.target)

    def _entry_of(self, model: str | None) -> Entry | None:
        found = self.registry.names.get((model or "").lower())
        return self.registry.entries[found] if found else None

    @cached_property
    def alone(self) -> str | None:
        """The target that a draft, served by itself, proposes for."""
        entry, wanted = self.entry, (self.target or "").lower()
        if entry is None or self.speculates:
            return None
        return entry.whom if any(d.id.lower() == wanted for d in entry.model.drafts) else None

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
    def said_block(self) -> int | None:
        """Tokens of a block as said: vLLM says one less."""
        if self.name == "vllm":
            tokens = _whole(str(self.config.get("num_speculative_tokens", "")))
            return None if tokens is None else tokens + 1
        return self.number("block_size") or self.number("--speculative-dflash-block-size")

    @property
    def block_size(self) -> int | None:
        """As said; SGLang takes the draft's own where nobody did, vLLM does not."""
        own = self.draft.block_size if self.draft and self.name == "sglang" else None
        return self.said_block or own

    @cached_property
    def thinking(self) -> Thinking | None:
        """What the server does unless a request says otherwise."""
        return said_thinking(self.entry.target, self.settings) if self.entry else None

    @cached_property
    def dead_switches(self) -> dict[str, DeadSwitch]:
        """Variables that do nothing, or harm, in this release."""
        return {
            switch.name: switch for switch in self.engine.dead_switches
            if within(switch.versions, self.version)
        }  # fmt: skip

    def is_inside(self, value: str) -> bool:
        """Whether a variable names a folder of the container."""
        return self.command.container is not None and value.startswith("/")

    def number(self, setting: str) -> int | None:
        """A count from 1 on; None for anything else."""
        words = self.settings.get(setting, ())
        return (_whole(words[0]) or None) if words else None

    @property
    def published(self) -> Port | None:
        """Where the container's server is reached from outside."""
        ports = self.command.container.ports if self.command.container else ()
        listens = self.number("port") or self.engine.port
        return next((port for port in ports if port.inside == listens), next(iter(ports), None))

    @property
    def kv_dtype(self) -> KvDtype:
        return said_kv_dtype(self.settings)

    @cached_property
    def situation(self) -> Situation | None:
        """What the rules look at; None where nothing speculates."""
        return self._with(self.draft, self.block_size) if self.speculates else None

    @cached_property
    def wished(self) -> Situation | None:
        """The same server with DFlash, where nothing asks for it and a draft is known."""
        draft = self.draft or (self.entry.draft(None) if self.entry else None)
        return None if self.speculates or draft is None else self._with(draft, draft.block_size)

    def _with(self, draft: Draft | None, block_size: int | None) -> Situation:
        target = self.entry.target if self.entry and not self.entry.stands_in else None
        known = target is not None and self.target_path is None
        return Situation(
            engine=self.engine, version=self.version, target=target, draft=draft,
            weights=target.weights[0].name if target and known else None,
            architecture=self.hardware.architecture, block_size=block_size,
            concurrency=self.number("concurrency"),
            # unsaid, the engine takes all that the target can read
            context=self.number("context") or (target.context if target else None),
            tensor_parallel=self.number("tensor_parallel") or 1, kv_dtype=self.kv_dtype,
            thinking=self.thinking, settings=self.settings,
        )  # fmt: skip

    def at(self, version: Version) -> Serving:
        """The same command, as another release reads it."""
        filed, given = _read(self.command, self.name, version)
        return replace(self, version=version, given=given, filed=filed)


def serving(
    command: Command, registry: Registry, version: str | None, hardware: Hardware
) -> Serving:
    """Read the options of a `serve` command as that release would.

    Without one: as the release of the image, else as the newest known.
    Raises UsageError for a release that is none.
    """
    assert command.engine is not None  # noqa: S101 - a serve command has one
    engine = registry.engines[command.engine]
    release = release_of(engine, version or command.version)
    filed, given = _read(command, command.engine, release)
    return Serving(command, registry, command.engine, engine, release, hardware, given, filed)


def _read(
    command: Command, name: EngineName, version: Version
) -> tuple[tuple[Given, ...], tuple[Given, ...]]:
    """The options of its file, and all of them."""
    table = flag_table(name, version)
    words = command.config.words(name) if command.config else ()
    filed = tuple(
        item for item in parse(table, words)
        if item.known or not item.as_written.startswith("--no-")
    )  # fmt: skip
    return filed, (*filed, *parse(table, _without_shell(command.argv)))


def _name(item: Given) -> str | None:
    """What two sayings of one option have in common; keys after a dot add up."""
    if "." in item.as_written:
        return item.as_written
    return item.row.name if item.row else item.flag


def _without_shell(argv: Iterable[str]) -> list[str]:
    return [word for word in argv if word != "\\"]


def _whole(word: str) -> int | None:
    """A count without a suffix; None for anything else, and for more digits than any count has."""
    return counted(word) if word.isdecimal() else None


def _counted(word: str) -> str:
    count = counted(word)
    return word if count is None else str(count)
