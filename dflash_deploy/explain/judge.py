"""Flag by flag, what a command gets right: the same rules and tables that plans are made with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from packaging.version import Version

from dflash_deploy.engine_schema import DeadSwitch, Engine, Severity
from dflash_deploy.engines.spelling import flag_for
from dflash_deploy.explain.read import Command
from dflash_deploy.explain.serving import Serving
from dflash_deploy.flag_tables import Given, first_with, last_with
from dflash_deploy.rules import Finding, findings

Verdict = Literal["fine", "stale", "wrong", "missing", "unneeded", "note"]
_DEFAULTS = {
    ("sglang", "--tp-size"): "1", ("sglang", "--dtype"): "bfloat16",
    ("vllm", "--tensor-parallel-size"): "1", ("vllm", "--dtype"): "bfloat16",
}  # fmt: skip
"""What the engine does anyway: bfloat16 is the checkpoints' own type."""
_SECRETS = frozenset({"--api-key", "--admin-api-key"})
_BACKENDS = frozenset({"attention_backend", "draft_attention_backend"})


@dataclass(frozen=True)
class Judged:
    """One part of a command, and what is to be said of it."""

    part: str
    verdict: Verdict
    message: str
    source: str | None = None


def judge(serving: Serving) -> list[Judged]:
    """Everything there is to say of a server's command, in the order of its parts."""
    command = serving.command
    found = [
        *_variables(command, serving.engine),
        *_image(serving),
        *(item for given in serving.given for item in _flag(given, serving)),
        *_rules(serving),
        *_missing(serving),
    ]
    return [item for number, item in enumerate(found) if item not in found[:number]]


def _variables(command: Command, engine: Engine) -> Iterator[Judged]:
    switches = {switch.name: switch for switch in engine.dead_switches}
    for name in command.env:
        if any(word in name for word in ("TOKEN", "KEY", "SECRET", "PASSWORD")):
            yield Judged(f"{name}=...", "wrong", "a secret in a command is there for everybody to"
                         " see: hand it over by name")  # fmt: skip
        elif name in switches:
            yield _switch(f"{name}={command.env[name]}", switches[name])
        else:
            yield Judged(f"{name}={command.env[name]}", "fine", "kept for the server")
    for name, value in command.optional_env.items():
        if name in switches:
            yield _switch(f"# {name}={value}", switches[name])


def _switch(part: str, switch: DeadSwitch) -> Judged:
    return Judged(part, "stale", switch.message, switch.source)


def _image(serving: Serving) -> Iterator[Judged]:
    command, engine = serving.command, serving.engine
    if command.image is None:
        return
    known = [image.reference.partition(":")[0] for image in engine.images]
    name, _, tag = command.image.partition(":")
    if name not in known:
        yield Judged(command.image, "stale", f"a build of its authors; releases are at {known[0]}")
    elif tag in ("", "latest", "nightly"):
        yield Judged(command.image, "note", "whatever the newest is on the day: pin a release")
    else:
        yield Judged(command.image, "fine", f"the engine's own image, {tag}")
    if command.doubled:
        yield Judged(" ".join(command.written[:1]), "wrong", "the image starts `vllm serve` itself:"
                     " the model follows it at once")  # fmt: skip


def _flag(given: Given, serving: Serving) -> Iterator[Judged]:
    """One option: the first thing to be said of it, or that it is fine."""
    if not _refused(given, serving):
        said = (check(given, serving) for check in _CHECKS)
        fine = Judged(_part(given), "fine", "accepted by this release")
        found = next((item for item in said if item), fine)
        if given.flag is not None or given.words != (serving.target,):
            yield found


def _word(given: Given, _: Serving) -> Judged | None:
    wrong = "a word that belongs to no option"
    return Judged(_part(given), "wrong", wrong) if given.flag is None else None


def _secret(given: Given, _: Serving) -> Judged | None:
    if given.flag not in _SECRETS:
        return None
    return Judged(f"{given.as_written.partition('=')[0]} ...", "wrong", "a key on a command line"
                  " is there for everybody to see: export DFLASH_API_KEY=...")  # fmt: skip


def _choice(given: Given, _: Serving) -> Judged | None:
    choices = given.row.choices if given.row else None
    if not choices or set(given.words) <= set(choices):
        return None
    return Judged(_part(given), "wrong", f"not among its choices: {', '.join(choices[:12])}")


def _default(given: Given, serving: Serving) -> Judged | None:
    if _DEFAULTS.get((serving.name, given.flag or "")) not in given.words:
        return None
    return Judged(_part(given), "unneeded", "the default")


def _backend(given: Given, serving: Serving) -> Judged | None:
    if serving.meaning(given.flag or "") not in _BACKENDS:
        return None
    return Judged(_part(given), "unneeded", f"{serving.name} chooses the backend by the card")


def _budget(given: Given, serving: Serving) -> Judged | None:
    if serving.meaning(given.flag or "") != "batched_tokens":
        return None
    return Judged(_part(given), "unneeded", "a round number for 0.20 to 0.27, which do not start"
                  " with their own defaults: the plan computes it from the requests",
                  "vLLM config/vllm.py 0.26.0, 0.28.0, 0.33.0")  # fmt: skip


def _unknown(given: Given, serving: Serving) -> Judged | None:
    if given.known:
        return None
    part, name, version = _part(given), given.flag or "", serving.version
    if given.candidates:
        return Judged(part, "wrong", f"may mean {' or '.join(given.candidates[:3])}: the parser"
                      " refuses it")  # fmt: skip
    setting = serving.meaning(name)
    now = flag_for(serving.engine, setting, version) if setting != name else None
    last, first = last_with(serving.name, name), first_with(serving.name, name)
    if last and Version(last) < version:
        instead = f": it is {now} now" if now else ""
        return Judged(part, "stale", f"gone after {last}{instead}", "the release's own parser")
    if first and Version(first) > version:
        return Judged(part, "wrong", f"only from {first} on", "the release's own parser")
    return Judged(part, "wrong", f"{serving.name} {version} has no such option",
                  "the release's own parser")  # fmt: skip


def _remote_code(given: Given, serving: Serving) -> Judged | None:
    if given.flag != "--trust-remote-code":
        return None
    entry = serving.entry
    if entry is not None and entry.target.remote_code == "none":
        return Judged(_part(given), "unneeded", "runs Python code of the repositories for nothing:"
                      " the engine has this target and DFlash in it")  # fmt: skip
    return Judged(_part(given), "note", "runs Python code of the repository: only at a commit that"
                  " you have read")  # fmt: skip


_CHECKS = (_word, _secret, _unknown, _choice, _remote_code, _default, _backend, _budget)


_VERDICTS: dict[Severity, Verdict] = {
    "refuse": "wrong", "warn": "note", "fix": "missing", "note": "note",
}  # fmt: skip


def _rules(serving: Serving) -> Iterator[Judged]:
    """What the engine's rules say, at the option that made them hold."""
    for found in findings(serving.situation) if serving.situation else ():
        if found.rule == "thinking" and serving.unsaid_thinking:
            continue  # said as what is missing
        part, verdict = _place(found, serving), _VERDICTS[found.severity]
        if found.settings and part not in {_part(given) for given in serving.given}:
            verdict = "missing"
        message = f"{found.message} ({found.hint})" if found.hint else found.message
        yield Judged(part, verdict, message, found.source)


def _place(found: Finding, serving: Serving) -> str:
    """The option that a rule speaks of: as written, or as it would be."""
    if found.severity == "note":
        return "clients"
    for item in found.set:
        flag = flag_for(serving.engine, item.setting, serving.version) or item.setting
        return f"{flag} {item.value or ''}".strip()
    for given in serving.given:
        if given.flag and serving.meaning(given.flag) in found.settings:
            return _part(given)
    for setting in found.settings:
        return flag_for(serving.engine, setting, serving.version) or setting
    return found.rule.replace("-", " ")


def _refused(given: Given, serving: Serving) -> bool:
    """Whether a rule speaks of this option: then the rule's words are enough."""
    at = serving.situation
    return at is not None and any(
        given.flag and serving.meaning(given.flag) in found.settings
        for found in findings(at) if found.severity in ("refuse", "warn")
    )  # fmt: skip


def _missing(serving: Serving) -> Iterator[Judged]:
    """What a good command would say."""
    entry, draft = serving.entry, serving.draft
    if serving.alone is not None:
        yield Judged(serving.target or "", "wrong", f"a draft is no chat model: it proposes tokens"
                     f" for {serving.alone}, which has to be served with it")  # fmt: skip
        return
    if not serving.speculates:
        yield Judged("speculation", "missing", "nothing asks for DFlash: this decodes plainly")
        return
    if serving.name == "vllm":
        yield from _vllm_config(serving.config)
    if draft and draft.revision and not serving.pinned:
        yield Judged("revision", "missing", "authors have replaced drafts under the same name:"
                     " pin the one that the figures are for")  # fmt: skip
    if entry and draft and draft.thinking and serving.unsaid_thinking:
        yield Judged("--default-chat-template-kwargs", "missing", "the draft was trained with"
                     f" thinking {draft.thinking}, and the template does otherwise")  # fmt: skip
    if "concurrency" not in serving.settings and serving.name == "vllm":
        yield Judged("--max-num-seqs", "missing", "unset, it is 1024 or 256 by the card: say what"
                     " you expect, the budget of draft tokens follows from it")  # fmt: skip


def _vllm_config(config: dict[str, Any]) -> Iterator[Judged]:
    method = config.get("method")
    if method is None:
        yield Judged("method", "missing", "unsaid, vLLM takes DFlash only if the draft's name has"
                     ' it, and a plain draft model else: "method": "dflash"')  # fmt: skip
    elif method != "dflash":
        yield Judged(f"method {method}", "wrong", 'DFlash 1 and 2 are both "dflash"')
    if "num_speculative_tokens" not in config:
        yield Judged("num_speculative_tokens", "missing", "vLLM does not derive it: the block size"
                     " less one")  # fmt: skip


def _part(given: Given) -> str:
    if given.flag is None:
        return given.as_written
    return " ".join((given.as_written.partition("=")[0], *given.words))
