"""What to look at first should a plan's draft not be accepted. Pure.

It is what is known of this very plan. Causes that are known to apply come before
those that may, and each comes with a command to try.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace

import msgspec
from packaging.version import Version

from dflash_deploy.engines.common import given
from dflash_deploy.request import Request, Resolution
from dflash_deploy.rules import Finding
from dflash_deploy.situation import flag_for


class Suspect(msgspec.Struct, frozen=True):
    """A possible cause, and the command that tries without it."""

    cause: str
    remedy: str


def suspects(resolution: Resolution) -> tuple[Suspect, ...]:
    """The likely first; the last one holds for every plan."""
    causes = (
        _other_thinking, _rules, _quantized_draft, _newer_release, _fp8_cache, _weights,
        _backends, _revisions, _unknown_thinking, _unseen_release, _anything,
    )  # fmt: skip
    return tuple(suspect for cause in causes for suspect in cause(resolution))


def again(request: Request, **changes: object) -> str:
    """The command of a request, with something else in it."""
    wanted = replace(request, **changes)  # type: ignore[arg-type]
    options = {
        "--engine": wanted.engine,
        "--engine-version": changes.get("engine_version"),
        "--host": None if wanted.host == Request(model="", engine="vllm").host else wanted.host,
        "--port": wanted.port,
        "--block-size": wanted.block_size,
        "--concurrency": wanted.concurrency,
        "--context": wanted.context,
        "--tensor-parallel": wanted.tensor_parallel,
        "--kv-dtype": None if wanted.kv_dtype == "auto" else wanted.kv_dtype,
        "--weights": wanted.weights,
    }
    words = ["dflash", "serve", wanted.model]
    words += [str(w) for name, value in options.items() if value is not None for w in (name, value)]
    words += ["--trust-remote-code"] if wanted.trust_remote_code else []
    return shlex.join([*words, *(("--", *wanted.engine_args) if wanted.engine_args else ())])


def without(resolution: Resolution, *settings: str) -> tuple[str, ...]:
    """The words after `--`, but for those of these settings."""
    flags = {s.flag for s in resolution.engine.spellings if s.setting in settings} | set(settings)
    return tuple(
        word
        for item in given(resolution)
        if item.flag not in flags and not any(f.startswith(f"{item.flag}.") for f in flags)
        for word in item.raw
    )


def _other_thinking(at: Resolution) -> Iterator[Suspect]:
    trained, served = at.draft.thinking, at.thinking
    if trained and served and trained != served:
        cause = f"thinking is {served}, and {at.draft.id} was trained with it {trained}"
        yield Suspect(cause, again(at.request, engine_args=without(at, "template_defaults")))


def _rules(at: Resolution) -> Iterator[Suspect]:
    for finding in at.doubts:
        if finding.check != "thinking-not-as-trained":  # told above, in so many words
            yield Suspect(finding.message, _remedy(at, finding))


def _remedy(at: Resolution, finding: Finding) -> str:
    if finding.lifted_in:
        return _on(at, finding.lifted_in)
    if finding.check == "context-above-draft":
        return again(at.request, context=at.draft.context, engine_args=without(at, "context"))
    if finding.hint and finding.hint.startswith("--engine "):
        return again(at.request, engine=finding.hint.split()[1], engine_args=())
    return again(at.request, engine_args=without(at, *finding.settings))


def _on(at: Resolution, release: str) -> str:
    """The same on another release of the engine."""
    install = f"dflash engine install {at.engine.distribution}=={release}"
    return f"{install} && {again(at.request, engine_version=release)}"


def _quantized_draft(at: Resolution) -> Iterator[Suspect]:
    if not at.draft.quantization:
        return
    cause = f"{at.draft.id} is quantized ({at.draft.quantization}): less of it is accepted"
    for other in at.entry.model.drafts:
        if not (other.quantization or other.unservable):
            yield Suspect(cause, again(at.request, model=other.id))
            return
    yield Suspect(cause, f"dflash show {shlex.quote(at.entry.name)}")


def _newer_release(at: Resolution) -> Iterator[Suspect]:
    newest = at.engine.releases[-1].version
    if at.version > Version(newest):
        cause = f"{at.request.engine} {at.version} is newer than any release known here ({newest})"
        yield Suspect(cause, _on(at, newest))


def _fp8_cache(at: Resolution) -> Iterator[Suspect]:
    if "fp8" in (at.request.kv_dtype, at.recipe.kv_dtype):
        words = without(at, "kv_dtype")
        cause = "the KV cache is in fp8, and the draft reads the target's states from there"
        yield Suspect(cause, again(at.request, kv_dtype="bf16", engine_args=words))


def _weights(at: Resolution) -> Iterator[Suspect]:
    seen = {e.weights for e in at.entry.model.evidence if e.draft in (None, at.draft.id)}
    others = [w.name for w in at.entry.target.weights if w.name in seen]
    if others and None not in seen and at.weights.name not in seen:
        cause = f"the target's weights are {at.weights.name}, and the record is of {others[0]}"
        yield Suspect(cause, again(at.request, weights=others[0]))


def _backends(at: Resolution) -> Iterator[Suspect]:
    said = sorted(at.said & {"attention_backend", "draft_attention_backend"})
    if said:
        cause = f"{' and '.join(name.replace('_', ' ') for name in said)} said by hand"
        yield Suspect(cause, again(at.request, engine_args=without(at, *said)))


def _revisions(at: Resolution) -> Iterator[Suspect]:
    said = sorted(at.said & {"revision", "draft_revision"})
    if said:
        cause = "a revision said by hand: targets and drafts were retrained under their names"
        yield Suspect(cause, again(at.request, engine_args=without(at, *said)))
        return
    loose = [
        name
        for name, revision, here in (
            (at.entry.id, at.weights.revision, at.target_path),
            (at.draft.id, at.draft_revision, at.draft_path),
        )
        if not (revision or here)
    ]
    if loose:
        cause = f"no commit of {' and '.join(loose)} is on record: it may have been retrained since"
        yield Suspect(cause, f"dflash pull {shlex.quote(at.request.model)} --dry-run")


def _unknown_thinking(at: Resolution) -> Iterator[Suspect]:
    modes = at.entry.target.thinking
    if at.draft.thinking or modes is None or modes.template_key is None:
        return
    flag = flag_for(at.engine, "template_defaults", at.version)
    if flag:
        other = json.dumps({modes.template_key: at.thinking != "on"})
        words = (*without(at, "template_defaults"), flag, other)
        cause = f"thinking is {at.thinking}, and which mode the draft was trained for is not known"
        yield Suspect(cause, again(at.request, engine_args=words))


def _unseen_release(at: Resolution) -> Iterator[Suspect]:
    """Releases that this draft was measured on, where this one is not among them."""
    seen = [
        evidence.version
        for evidence in at.entry.model.evidence
        if evidence.engine == at.request.engine
        and evidence.build is None
        and evidence.version
        and evidence.draft in (None, at.draft.id)
        and any(row.acceptance_length for row in evidence.results)
    ]
    if seen and str(at.version) not in seen:
        cause = f"the record is of {at.request.engine} {seen[0]}, and this is {at.version}"
        yield Suspect(cause, _on(at, seen[0]))


def _anything(at: Resolution) -> Iterator[Suspect]:
    yield Suspect(
        "the server loaded something else than was planned: its log names draft and settings",
        f"dflash plan {shlex.quote(at.request.model)} --engine {at.request.engine} --why",
    )
