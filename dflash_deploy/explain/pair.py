"""The target and the draft of a command: whether they belong together, and what that asks for."""

from __future__ import annotations

from collections.abc import Iterator

from dflash_deploy.explain import speculation
from dflash_deploy.explain.judged import Judged, as_part
from dflash_deploy.explain.serving import Serving
from dflash_deploy.json_options import SPECULATION
from dflash_deploy.schema import Parsers
from dflash_deploy.situation import flag_for


def judge_draft(part: str, serving: Serving) -> Judged:
    """A draft proposes for one target."""
    entry, named = serving.entry, (serving.draft_id or "").lower()
    if serving.draft is not None and entry is not None:
        return Judged(part, "fine", f"the draft for {entry.whom}")
    other = serving.registry.names.get(named)
    if other and serving.registry.entries[other].stands_in:
        return Judged(part, "note", "which target it is for is not known here")
    if other and entry:
        return Judged(part, "wrong", f"proposes for {other}, not for {entry.id}: nothing of it"
                      " would be accepted")  # fmt: skip
    if other:
        return Judged(part, "note", f"a draft for {other}")
    drafts = entry.model.drafts if entry else []
    known = " or ".join([draft.id for draft in drafts if not draft.unservable][:3])
    instead = f"; known for this target: {known}" if known else ""
    message = f"no draft that is known here: dflash registry add reads it{instead}"
    return Judged(part, "note", message)


def taken_for(serving: Serving) -> Iterator[Judged]:
    """Which models the folders of a command are taken for, and by what."""
    target, draft, entry = serving.taken_target, serving.taken_draft, serving.entry
    if target and entry and not entry.stands_in:
        yield Judged("the target", "note", f"{serving.target} is taken for {target.id}, by"
                     f" {target.by}")  # fmt: skip
    if draft:
        yield Judged("the draft", "note", f"{serving.named_draft} is taken for {draft.id}, by"
                     f" {draft.by}")  # fmt: skip


def missing(serving: Serving) -> Iterator[Judged]:
    """What a good command for this pair would say."""
    if serving.alone is not None:
        yield Judged(serving.target_part, "wrong", "a draft is no chat model: it proposes tokens"
                     f" for {serving.alone}, which has to be served with it")  # fmt: skip
        return
    unknown = serving.entry is None and not serving.speculates
    if serving.name == "vllm" and unknown and "speculator" in (serving.target or "").lower():
        yield Judged(serving.target_part, "note", "a draft in the layout of speculators names its"
                     " target, and vLLM serves both: dflash registry add reads it")  # fmt: skip
        return
    yield from _vllm(serving) if serving.name == "vllm" else _sglang(serving)
    if not serving.speculates:
        return
    draft = serving.draft
    if draft and draft.revision and not serving.pinned and not serving.draft_path:
        yield Judged("revision", "missing", "authors have replaced drafts under the same name:"
                     " pin the one that the figures are for")  # fmt: skip
    yield from _thinking(serving)
    yield from _parsers(serving)
    yield from _consent(serving)


def _consent(serving: Serving) -> Iterator[Judged]:
    entry = serving.entry
    if entry and entry.target.remote_code == "required" and "remote_code" not in serving.settings:
        yield Judged("--trust-remote-code", "missing", "the target runs Python code of its"
                     " repository: read it at the commit below before you agree")  # fmt: skip


def _vllm(serving: Serving) -> Iterator[Judged]:
    if serving.itself:
        yield from _itself(serving)
    else:
        yield from _speculation(serving)
    if serving.speculates and "concurrency" not in serving.settings:
        yield Judged("--max-num-seqs", "missing", "unset, it is 1024 or 256 by the card: say what"
                     " you expect, the budget of draft tokens follows from it")  # fmt: skip


def _itself(serving: Serving) -> Iterator[Judged]:
    entry = serving.entry
    whom = f"that it is for {entry.id}" if entry and not entry.stands_in else "whom it is for"
    message = f"vLLM reads off this draft {whom}, and serves that with it"
    yield Judged(serving.target_part, "fine", message, "vLLM 0.33.0 transformers_utils/config.py")
    for given in serving.final:
        for key, value in speculation.keys(given).items():
            if key in ("method", "model"):
                yield Judged(speculation.part(given, key, value), "unneeded",
                             "the draft itself says it, and counts")  # fmt: skip


def _speculation(serving: Serving) -> Iterator[Judged]:
    config = serving.config
    if any(given.flag == SPECULATION for given in serving.given) and not config:
        return  # it is there, and no JSON
    if not serving.speculates and not config:
        yield Judged("--speculative-config", "missing", "nothing asks for DFlash: this decodes"
                     " plainly")  # fmt: skip
        return
    if not serving.speculates:
        yield Judged("model", "missing", "the speculative config names no draft")
    if "method" not in config:
        yield Judged("method", "missing", "unsaid, vLLM takes DFlash only if the draft's name has"
                     ' it, and a plain draft model else: "method": "dflash"')  # fmt: skip
    if "num_speculative_tokens" not in config:
        yield Judged("num_speculative_tokens", "missing", "vLLM does not derive it: the block size"
                     " less one")  # fmt: skip


def _sglang(serving: Serving) -> Iterator[Judged]:
    algorithm = "algorithm" in serving.settings
    if not serving.speculates and not algorithm:
        yield Judged("--speculative-algorithm", "missing", "nothing asks for DFlash: this decodes"
                     " plainly")  # fmt: skip
    elif not serving.speculates:
        yield Judged("--speculative-draft-model-path", "missing", "no draft is named")
    elif not algorithm:
        yield Judged("--speculative-algorithm DFLASH", "missing", "a draft alone turns nothing on")


def _thinking(serving: Serving) -> Iterator[Judged]:
    """The mode the server answers in, against the one the draft was trained for."""
    draft, source = serving.draft, "z-lab/dflash#60, #133"
    if not (draft and draft.thinking and serving.thinking and draft.thinking != serving.thinking):
        return
    trained = f"the draft was trained with thinking {draft.thinking}"
    flag = flag_for(serving.engine, "template_defaults", serving.version)
    said = [g for g in serving.given if serving.meaning(g.flag) == "template_defaults"]
    if flag is None:
        yield Judged("clients", "note", f"{trained}: they must ask for it in every request's"
                     " chat_template_kwargs", source)  # fmt: skip
    elif said:
        yield Judged(as_part(said[-1]), "wrong", f"{trained}: far less is accepted so", source)
    else:
        yield Judged(flag, "missing", f"{trained}, and the template does otherwise", source)


def _parsers(serving: Serving) -> Iterator[Judged]:
    entry = serving.entry
    found = entry.target.parsers if entry else []
    parsers = next((item for item in found if item.engine == serving.name), Parsers(engine="vllm"))
    asked = (
        ("tool_parser", parsers.tool, "without it tool calls come as plain text"),
        ("reasoning_parser", parsers.reasoning, "without it thoughts come as part of the answer"),
    )
    for setting, name, why in asked:
        flag = flag_for(serving.engine, setting, serving.version)
        if name and flag and setting not in serving.settings:
            yield Judged(f"{flag} {name}", "missing", why)
    unsaid = "auto_tool_choice" not in serving.settings
    if serving.name == "vllm" and "tool_parser" in serving.settings and unsaid:
        yield Judged("--enable-auto-tool-choice", "missing", "a tool parser does nothing without")
