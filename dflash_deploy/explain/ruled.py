"""What the engine's rules say of a command, each at the part that it speaks of."""

from __future__ import annotations

from collections.abc import Iterator

from dflash_deploy.engine_schema import Check, RuleWhen, Severity
from dflash_deploy.explain import speculation
from dflash_deploy.explain.judged import Judged, Verdict, as_part
from dflash_deploy.explain.serving import Serving
from dflash_deploy.json_options import SPECULATION
from dflash_deploy.rules import Finding, findings
from dflash_deploy.situation import flag_for

_VERDICTS: dict[Severity, Verdict] = {
    "refuse": "wrong", "warn": "note", "fix": "missing", "note": "note",
}  # fmt: skip
OF_CHECK: dict[Check, str] = {
    "active-above-admitted": "--max-num-active-seqs",
    "batched-tokens-budget": "batched_tokens",
    "block-sizes-differ": "--speculative-dflash-block-size",
    "block-above-trained": "block_size",
    "buffer-of-none": "recurrent_state_cache",
    "cache-block-size": "--block-size",
    "context-above-config": "context",
    "context-above-draft": "context",
    "draft-heads-not-divisible": "tensor_parallel",
    "context-parallel-ranks": "decode_context_parallel",
    "draft-length-above-config": "--speculative-config.max_model_len",
    "synthetic-acceptance": "--speculative-config.rejection_sample_method",
    "unchunked-prompt-above-budget": "--no-enable-chunked-prefill",
    "watermark-not-for-drafts": "--watermark-config",
    "dp-attention-ranks": "--attn-dp-size",
    "draft-window-below-block": "draft_window",
    "draft-ranks": "--speculative-config.draft_tensor_parallel_size",
    "lora-budget": "batched_tokens",
    "schedule-malformed": "schedule",
    "schedule-rests": "schedule",
    "thinking-not-as-trained": "template_defaults",
    "prefill-pages": "--chunked-prefill-size",
    "track-interval": "--mamba-track-interval",
    "yarn-without-theta": "overrides",
}
"""The setting that a check's arithmetic is about."""
OF_THE_PAIR: frozenset[Check] = frozenset({"draft-in-several-groups"})
"""Checks about no option."""


def ruled(serving: Serving) -> Iterator[Judged]:
    """In the order of the rules."""
    for found in _found(serving):
        if _is_set(found, serving) or found.rule == "thinking":
            continue  # the mode is judged with what a draft asks for
        part, given = _place(found, serving)
        message = f"{found.message} ({found.hint})" if found.hint else found.message
        yield Judged(part, _verdict(found) if given else "missing", message, found.source)


def _verdict(found: Finding) -> Verdict:
    return "unneeded" if found.ignored else _VERDICTS[found.severity]


def left_out(serving: Serving) -> frozenset[str]:
    """The settings that a rule refuses, or that the engine ignores."""
    return frozenset(
        setting
        for found in _found(serving) if found.severity == "refuse" or found.ignored
        for setting in _subjects(found, serving)
    )  # fmt: skip


def spoken_of(serving: Serving, *severities: Severity) -> frozenset[str]:
    """The settings that rules of these severities speak of."""
    return frozenset(
        setting
        for found in _found(serving) if found.severity in severities
        for setting in _subjects(found, serving)
    )  # fmt: skip


def _found(serving: Serving) -> list[Finding]:
    """Of a server that decodes plainly: which of its settings would be refused with DFlash."""
    if serving.situation:
        return findings(serving.situation)
    return [
        found
        for found in (findings(serving.wished) if serving.wished else [])
        if found.severity == "refuse"
        and any(said_part(s, serving) for s in _subjects(found, serving))
    ]


def _is_set(found: Finding, serving: Serving) -> bool:
    """Whether all that a rule adds is variables, and the command sets them already."""
    wanted, env = found.variables, serving.command.env
    return bool(wanted) and not found.set and all(env.get(v.name) == v.value for v in wanted)


def _when(found: Finding, serving: Serving) -> RuleWhen:
    named = (rule.when for rule in serving.engine.rules if rule.id == found.rule)
    return next(named, RuleWhen())


def _subjects(found: Finding, serving: Serving) -> list[str]:
    """The settings that a condition looks at."""
    when = _when(found, serving)
    asked = (
        (OF_CHECK.get(when.check) if when.check else None, when.check),
        ("dp_attention", when.check == "dp-attention-ranks"),
        ("--page-size", when.check in ("prefill-pages", "track-interval")),
        ("kv_dtype", when.kv_dtype),
        ("draft_kv_dtype", when.draft_kv_dtype),
        ("kv_dtype", when.draft_kv_dtype),
        ("tensor_parallel", when.tensor_parallel_above),
        ("concurrency", when.concurrency_above),
        ("block_size", when.block_size_above),
    )
    return [*found.settings, *(name for name, condition in asked if name and condition)]


def _place(found: Finding, serving: Serving) -> tuple[str, bool]:
    """The part that a rule speaks of, and whether the command has it."""
    if found.severity == "note":
        return "clients", True
    for item in found.set:
        return f"{_spelled(item.setting, serving)} {item.value or ''}".strip(), False
    for variable in found.variables:
        return f"{variable.name}={variable.value}", False
    subjects = _subjects(found, serving)
    for setting in subjects:
        if part := said_part(setting, serving):
            return part, True
    if subjects:
        return _spelled(subjects[0], serving), False
    return _about(found, serving), True


def said_part(setting: str, serving: Serving) -> str | None:
    """The last part of the command that says a setting."""
    parts: list[str] = []
    for given in serving.given:
        if given.flag and serving.meaning(given.flag) == setting:
            parts.append(as_part(given))
        parts += [
            speculation.part(given, key, value)
            for key, value in speculation.keys(given).items()
            if setting == _meaning(f"{SPECULATION}.{key}", serving)
        ]
    return parts[-1] if parts else None


def _meaning(key: str, serving: Serving) -> str:
    """vLLM counts the draft tokens alone; all other keys mean what the registry says."""
    tokens = key == f"{SPECULATION}.num_speculative_tokens"
    return "block_size" if tokens else serving.meaning(key)


def _spelled(setting: str, serving: Serving) -> str:
    return flag_for(serving.engine, setting, serving.version) or setting


def draft_part(serving: Serving) -> str:
    if serving.itself:
        return serving.target_part
    return said_part("draft", serving) or said_part(f"{SPECULATION}.model", serving) or "the draft"


def _about(found: Finding, serving: Serving) -> str:
    """A rule without a setting is about the target, the draft, or the release itself."""
    when = _when(found, serving)
    if when.targets or when.target_layers or found.rule == "target-class":
        return serving.target_part
    drafts = (when.draft_kind, when.draft_layers, when.draft_format, when.draft_quantized)
    if any(drafts) or when.draft_causal is not None or found.rule == "draft-class":
        return draft_part(serving)
    return f"{serving.name} {serving.version}"
