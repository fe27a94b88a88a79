"""The same server with other speculation, or none: a plan's argv, rewritten. Pure.

Everything but the speculation stays as it was planned for DFlash: context, requests, share of the
card, backends. Each release's own parser says which flags and keys it has.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from packaging.version import Version

from dflash_deploy.errors import Unsupported, UsageError
from dflash_deploy.flag_faults import fault
from dflash_deploy.flag_tables import Given, first_with, flag_table, parse
from dflash_deploy.json_options import SPECULATION, together
from dflash_deploy.measure.placeless import placeless
from dflash_deploy.measure.report import Arm, Method
from dflash_deploy.measure.synthetic import length_of
from dflash_deploy.plan import Plan
from dflash_deploy.schedule import SCHEDULE

VLLM_FLAGS = ("--speculative-config", "--spec-", "--per-request-spec-decode-metrics")
SGLANG_FLAGS = ("--speculative-",)
DRAFTED: dict[Method, int] = {"mtp": 3, "eagle3": 3, "ngram": 5}
"""Tokens a cycle where nobody says."""
LOOKUP = {"prompt_lookup_max": 4, "prompt_lookup_min": 2}
SIMULATED = "SGLANG_SIMULATE_ACC_LEN"
SIMULATED_HOW = {
    "SGLANG_SIMULATE_ACC_METHOD": "match-expected",
    # the draft's tokens: one token over and over would send a mixture's rows to the same experts
    "SGLANG_SIMULATE_ACC_TOKEN_MODE": "real-draft-token",
}
SIMULATED_FROM = Version("0.5.17")
"""SGLang's DFlash worker reads these variables from here on (speculative/dflash_worker_v2.py); its
releases before have them for other methods, and accept what the draft is worth."""


class Other(msgspec.Struct, frozen=True):
    """A method besides DFlash, as typed: `mtp`, `mtp:1`, `eagle3=REPO`, `ngram`."""

    method: Method
    tokens: int
    model: str | None = None

    @property
    def name(self) -> str:
        return f"{self.method}-{self.tokens}"


def read_other(said: str) -> Other:
    """Raises UsageError."""
    given, _, count = said.partition(":")
    name, _, model = given.partition("=")
    hint = "--arm mtp, --arm eagle3=REPO or --arm ngram; --arm mtp:2 for 2 tokens a cycle"
    if name not in DRAFTED:
        raise UsageError(f"no arm `{said}`", hint=hint)
    if (name == "eagle3") != bool(model):
        wrong = "needs its draft" if name == "eagle3" else "takes no draft"
        raise UsageError(f"the arm {name} {wrong}", hint=hint)
    if count and not (count.isdecimal() and 1 <= int(count) <= 64):
        raise UsageError(f"`{count}` is no number of tokens from 1 to 64", hint=hint)
    return Other(name, int(count) if count else DRAFTED[name], model or None)


def dflash_arm(plan: Plan, rates: tuple[float, ...] = ()) -> tuple[Arm, Plan]:
    """The plan's own server; with rates, one that makes its acceptance up."""
    made = made_up(plan, rates) if rates else plan
    told = together(item for item in _given(made) if item.flag == SPECULATION)
    spans = tuple(tuple(span) for span in told.get(SCHEDULE, ()))
    return _arm(
        f"dflash-{plan.block_size}{'-schedule' if spans else ''}", "dflash", made,
        block_size=plan.block_size, schedule=spans,
        synthetic_length=_length_made_up(rates, told), synthetic_rates=rates,
    ), made  # fmt: skip


def _length_made_up(rates: tuple[float, ...], told: Mapping[str, Any]) -> float | None:
    """Also where the user's own words to the engine make it up."""
    by_hand = told.get("synthetic_acceptance_rates") or ()
    if rates or by_hand:
        return round(length_of(rates or by_hand), 4)
    length: float | None = told.get("synthetic_acceptance_length")
    return length


def plain_arm(plan: Plan) -> tuple[Arm, Plan]:
    bare = _with_argv(plan, without_speculation(plan))
    return _arm("plain", "plain", bare), bare


def plainly(arm: Arm) -> Arm:
    """Plain decoding by the same server, that leaves its draft alone where it is asked to."""
    return Arm(name="plain", method="plain", argv=arm.argv, env=arm.env)


def other_arm(plan: Plan, other: Other) -> tuple[Arm, Plan]:
    """Raises Unsupported where the engine has no such method."""
    if plan.engine == "transformers":
        raise Unsupported(
            f"the embedded engine speculates with DFlash drafts alone, not with {other.method}",
            hint="--engine vllm or --engine sglang",
        )
    words = _sglang(other) if plan.engine == "sglang" else _vllm(other)
    _check(plan, words, other.method)
    made = _with_argv(plan, (*without_speculation(plan), *words))
    return _arm(other.name, other.method, made), made


def made_up(plan: Plan, rates: tuple[float, ...]) -> Plan:
    """The server told to accept at these rates whatever it drafts. Raises Unsupported."""
    match plan.engine:
        case "transformers":
            raise Unsupported(
                "the embedded engine cannot make acceptance up", hint="--engine vllm, or sglang"
            )
        case "sglang":
            if Version(plan.version) < SIMULATED_FROM:
                raise Unsupported(
                    f"sglang {plan.version} makes no acceptance up for DFlash: it does not read"
                    f" {SIMULATED} there",
                    hint=f"--engine-version {SIMULATED_FROM}",
                )
            said = {SIMULATED: f"{length_of(rates):.4f}", **SIMULATED_HOW}
            return msgspec.structs.replace(plan, env={**plan.env, **said})
    given = _given(plan)
    config = together(item for item in given if item.flag == SPECULATION) | {
        "rejection_sample_method": "synthetic",
        "synthetic_acceptance_rates": list(rates),
    }
    words = (SPECULATION, json.dumps(config))
    _check(plan, words, "made-up acceptance")
    rest = _raw(item for item in given if item.flag != SPECULATION)
    return _with_argv(plan, (*rest, *words))


def check_simulation(environ: Mapping[str, str]) -> None:
    """An engine inherits it, and no report would say so. Raises UsageError."""
    if SIMULATED in environ:
        raise UsageError(
            f"{SIMULATED} is set here: SGLang would make its acceptance up, and no report say so",
            hint=f"unset {SIMULATED}; --synthetic-acceptance makes it up and says so",
        )


def without_speculation(plan: Plan) -> tuple[str, ...]:
    """The plan's argv without what belongs to the draft."""
    dropped = SGLANG_FLAGS if plan.engine == "sglang" else VLLM_FLAGS
    return tuple(
        _raw(item for item in _given(plan) if not (item.flag or "").startswith(dropped))
    )  # fmt: skip


def _vllm(other: Other) -> tuple[str, ...]:
    config: dict[str, object] = {"method": other.method, "num_speculative_tokens": other.tokens}
    if other.model:
        config["model"] = other.model
    if other.method == "ngram":
        config |= LOOKUP
    return (SPECULATION, json.dumps(config))


def _sglang(other: Other) -> tuple[str, ...]:
    """EAGLE without a draft of its own is the target's MTP head."""
    names: dict[str, str] = {"mtp": "EAGLE", "eagle3": "EAGLE3", "ngram": "NGRAM"}
    words: tuple[str, ...] = ("--speculative-algorithm", names[other.method])
    if other.model:
        words += ("--speculative-draft-model-path", other.model)
    if other.method == "ngram":
        return (*words, "--speculative-num-draft-tokens", str(other.tokens))
    chain = ("--speculative-num-steps", str(other.tokens), "--speculative-eagle-topk", "1")
    return (*words, *chain, "--speculative-num-draft-tokens", str(other.tokens + 1))


def _check(plan: Plan, words: tuple[str, ...], what: str) -> None:
    """Whether this release has these flags, and the keys of their JSON object."""
    for item in parse(flag_table(plan.engine, Version(plan.version)), words):
        keys = [key.name for key in item.row.keys] if item.row else []
        lacking = [key for key in together([item]) if keys and key not in keys]
        flag = f"{item.flag}.{lacking[0]}" if lacking else item.flag
        if item.known and not lacking and fault(item) is None:
            continue
        first = first_with(plan.engine, str(flag))
        raise Unsupported(
            f"{plan.engine} {plan.version} has no {what}: it does not know {flag}",
            hint=f"--engine-version {first}" if first else "dflash bench without it",
        )


def _given(plan: Plan) -> list[Given]:
    return parse(flag_table(plan.engine, Version(plan.version)), plan.argv)


def _raw(given: Iterable[Given]) -> Iterator[str]:
    for item in given:
        yield from item.raw


def _with_argv(plan: Plan, argv: Iterable[str]) -> Plan:
    return msgspec.structs.replace(plan, argv=tuple(argv))


def _env(plan: Plan) -> dict[str, str]:
    return dict(zip(plan.env, placeless(tuple(plan.env.values())), strict=True))


def _arm(name: str, method: Method, plan: Plan, **known: object) -> Arm:
    return msgspec.structs.replace(
        Arm(name=name, method=method, argv=placeless(plan.argv), env=_env(plan)), **known
    )
