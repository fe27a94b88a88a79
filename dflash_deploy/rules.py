"""What an engine's rules say of a situation, and the first release that serves a pair. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from packaging.version import Version

from dflash_deploy.checks import CHECKS
from dflash_deploy.engine_schema import (
    Check,
    Engine,
    RuleWhen,
    SettingIs,
    SetTo,
    Severity,
    Support,
    Variable,
)
from dflash_deploy.foreign import foreign
from dflash_deploy.needs import unmet
from dflash_deploy.reach import as_release, within
from dflash_deploy.schema import Draft, Target
from dflash_deploy.situation import Situation, meaning_of


@dataclass(frozen=True)
class Finding:
    """One rule that holds here."""

    rule: str
    severity: Severity
    message: str
    source: str
    hint: str | None = None
    lifted_in: str | None = None
    set: tuple[SetTo, ...] = ()
    settings: tuple[str, ...] = ()
    """The settings whose words, or whose absence, made the rule hold, by meaning."""

    variables: tuple[Variable, ...] = ()
    """What a fix adds to the environment."""
    check: Check | None = None
    """The arithmetic that it came from."""
    accepts_less: bool = False
    ignored: bool = False
    """The engine does as if the settings had not been said."""


@dataclass(frozen=True)
class FirstRelease:
    """The first known release that serves a pair, and what the one before it does wrong."""

    version: str
    because: str
    source: str


def findings(at: Situation) -> list[Finding]:
    """Everything the engine's rules have to say, in their order."""
    return list(_each(at))


def _each(at: Situation) -> Iterator[Finding]:
    yield from _unsupported(at)
    yield from _broken(at)
    yield from _incomplete(at)
    yield from _elsewhere(at)


def _broken(at: Situation) -> Iterator[Finding]:
    for rule in at.engine.rules:
        if holds(rule.when, at):
            wanted = tuple(item for item in rule.set if item.setting not in at.settings)
            if rule.severity == "fix" and not (wanted or rule.variables):
                continue  # somebody said otherwise, or the same
            spoken = tuple(item.name for item in rule.when.settings)
            yield Finding(rule.id, rule.severity, rule.message, rule.source, rule.hint,
                          rule.lifted_in, wanted, spoken, tuple(rule.variables),
                          rule.when.check, rule.accepts_less, rule.ignored)  # fmt: skip


def _incomplete(at: Situation) -> Iterator[Finding]:
    """Options that are refused, or not read, without another."""
    for need, said in unmet(at):
        name, wanted = said.partition(" ")[0], " or ".join(need.need)
        message = f"{said} does nothing without" if need.ignored else f"{said} needs"
        yield Finding(
            f"needs-of{name}", "warn" if need.ignored else "refuse", f"{message} {wanted}",
            need.source, f"-- {need.need[0]}, or leave {name} out",
            settings=(meaning_of(at.engine, name),), ignored=need.ignored,
        )  # fmt: skip


def _elsewhere(at: Situation) -> Iterator[Finding]:
    """Kernels of another platform."""
    for item, option, word in foreign(at):
        yield Finding(
            f"foreign-to{option}", "refuse",
            f"{option} {word} is for {item.platform}, and plans are for CUDA cards",
            item.source, f"leave {option} out", settings=(option,),
        )  # fmt: skip


def _unsupported(at: Situation) -> Iterator[Finding]:
    """A class that this release cannot load, or cannot speculate with."""
    classes = (
        ("target", at.target.architecture if at.target else None),
        ("draft", at.draft.architecture if at.draft else None),
    )
    for role, architecture in classes:
        listed = any(item.role == role for item in at.engine.supports)
        support = supported(at.engine, role, architecture)
        if architecture is None or not listed:  # an engine without a list takes any class
            continue
        if support and as_release(at.version) >= Version(support.since):
            continue
        name = at.engine.distribution
        if support:
            does = "read the hidden states of" if role == "target" else "load a draft of class"
            message = f"it cannot {does} {architecture}"
            yield Finding(f"{role}-class", "refuse", message, support.source,
                          lifted_in=support.since)  # fmt: skip
        else:
            message = f"no release of {name} known here takes {architecture} as a {role} for DFlash"
            yield Finding(f"{role}-class", "refuse", message, f"{name} wheels",
                          "dflash registry check")  # fmt: skip


def supported(engine: Engine, role: str, architecture: str | None) -> Support | None:
    return next(
        (item for item in engine.supports
         if item.role == role and architecture in item.architectures),
        None,
    )  # fmt: skip


def first_release(engine: Engine, target: Target, draft: Draft) -> FirstRelease | None:
    """The first release from which on nothing about this pair is refused; None: there is none."""
    first: str | None = None
    for release in reversed(engine.releases):  # what an older one does wrong is not asked
        at = Situation(
            engine=engine, version=Version(release.version), target=target, draft=draft,
            block_size=draft.block_size, concurrency=1,
        )  # fmt: skip
        refusal = next((item for item in _each(at) if item.severity == "refuse"), None)
        if refusal:
            return FirstRelease(first, refusal.message, refusal.source) if first else None
        first = release.version
    return (
        FirstRelease(first, "there is no DFlash", f"{engine.distribution} wheels")
        if first
        else None
    )


def holds(when: RuleWhen, at: Situation) -> bool:
    """Whether every part of a condition holds; what is not known fulfils nothing."""
    return (
        within(when.version, at.version)
        and (when.architecture is None or at.architecture in when.architecture)
        and _about_target(when, at.target)
        and (when.target_weights is None or at.weights in when.target_weights)
        and _about_draft(when, at.draft)
        and (when.kv_dtype is None or at.kv_dtype in when.kv_dtype)
        and (when.draft_kv_dtype is None or at.draft_kv_dtype in when.draft_kv_dtype)
        and _above(at.tensor_parallel, when.tensor_parallel_above)
        and _above(at.concurrency, when.concurrency_above)
        and _above(at.block_size, when.block_size_above)
        and all(_is_set(item, at) for item in when.settings)
        and (when.check is None or CHECKS[when.check](at))
    )


def _about_target(when: RuleWhen, target: Target | None) -> bool:
    if when.targets is not None and (target is None or target.architecture not in when.targets):
        return False
    others = when.targets_except
    if others is not None and (target is None or target.architecture in others):
        return False
    kinds = {layers.kind for layers in target.layers} if target else set()
    if when.target_mla is not None and (not kinds or ("mla" in kinds) != when.target_mla):
        return False
    return when.target_layers is None or when.target_layers in kinds


def _about_draft(when: RuleWhen, draft: Draft | None) -> bool:
    wanted = (
        (when.draft_kind, draft and draft.kind),
        (when.draft_causal, draft and draft.causal),
        (when.draft_format, draft and draft.format),
        (when.draft_quantized, draft and draft.quantization is not None),
    )
    if when.draft_layers and (draft is None or layer_pattern(draft) not in when.draft_layers):
        return False
    return all(asked is None or asked == is_ for asked, is_ in wanted)


def layer_pattern(draft: Draft) -> str | None:
    """`full`, `sliding` or `mixed`; None where its layers are not known."""
    kinds = {layers.kind for layers in draft.layers} & {"full", "sliding"}
    return "mixed" if len(kinds) > 1 else next(iter(kinds), None)


def _above(value: int | None, limit: int | None) -> bool:
    return limit is None or (value is not None and value > limit)


def _is_set(wanted: SettingIs, at: Situation) -> bool:
    given = at.settings.get(wanted.name)
    if wanted.absent or given is None:
        return wanted.absent and given is None
    words = [word.lower() for word in given]
    number = at.number(wanted.name)
    return (
        (wanted.one_of is None or any(word in wanted.one_of for word in words))
        and (wanted.none_of is None or any(word not in wanted.none_of for word in words))
        and (wanted.mentions is None or any(wanted.mentions in word for word in words))
        and (wanted.above is None or (number is not None and number > wanted.above))
    )
