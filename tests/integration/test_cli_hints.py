"""What a refusal advises is done, word for word, and leads to no further refusal."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterator
from itertools import cycle

import pytest

from dflash_deploy import hardware, registry
from dflash_deploy.cli import main

COMMIT = "0123456789abcdef" * 2 + "01234567"
CARDS = ("L4", "RTX-5090", "H100:8")
VARIANTS: tuple[tuple[str, ...], ...] = (
    (),
    ("--context", "1"),
    ("--context", "99999999"),
    ("--concurrency", "4096"),
    ("--tensor-parallel", "64"),
    ("--tensor-parallel", "3"),
    ("--tensor-parallel", "3", "--nodes", "2"),
    ("--block-size", "99"),
    ("--kv-dtype", "fp8"),
    ("--weights", "none-such"),
    ("--engine-version", "0.5.11"),
    ("--", "--pp", "2"),
    ("--", "--none-such", "2"),
    ("--", "--pipeline-parallel-size", "2"),
    ("--", "--attention-backend", "flashinfer"),
    ("--", "--dp-size", "4"),
)


def commands() -> Iterator[tuple[str, ...]]:
    """Every engine, card and variant, each with the next entry that the engine serves."""
    entries = registry.load(user=False).entries.values()
    for engine in ("vllm", "sglang"):
        served = cycle(
            e.name for e in entries if any(r.when.engine == engine for r in e.model.recipes)
        )
        for card in CARDS:
            for variant in VARIANTS:
                yield "plan", next(served), "--engine", engine, "--gpu", card, *variant


@pytest.fixture(autouse=True)
def _one_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "load", functools.cache(registry.load))
    monkeypatch.setattr(hardware, "probe", lambda _: hardware.Hardware())


@pytest.mark.parametrize("argv", commands(), ids=shlex.join)
def test_a_hint_leads_on(argv: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """In one step, where nothing else is wrong; else to the next thing that is wrong."""

    def refusal(words: tuple[str, ...]) -> str | None:
        code, said = main([*words]), capsys.readouterr().err
        assert (code == 0) == ("hint: " not in said), said
        return said if code else None

    said, known, steps = refusal(argv), set[str](), 0
    most = 1 if refusal(consented(argv[:6], argv[1])) is None else 3
    while said is not None:
        message, hint = said.split("hint: ")
        assert message not in known, said
        known.add(message)
        steps += 1
        ways = {way: refusal(way) for way in followed(argv, hint.strip())}
        assert ways, f"no hint that can be followed: {said}"
        argv, said = next(
            ((way, None) for way in ways if ways[way] is None), next(iter(ways.items()))
        )
    assert steps <= most, known


def followed(argv: tuple[str, ...], hint: str) -> Iterator[tuple[str, ...]]:
    """The commands that somebody types who reads it."""
    model = argv[1]
    if install := re.fullmatch(r"dflash engine install \w+==(\S+)", hint):
        yield consented(with_option(argv, "--engine-version", install[1]), model)
    elif hint.startswith("dflash "):
        yield consented(tuple(shlex.split(hint)[1:]), model)
    elif "--trust-remote-code" in hint:
        yield consented(argv, model)
    elif hint.startswith("--"):
        for way in hint.split(", or "):
            yield from with_words(argv, way)
    elif hint.startswith("leave ") and " out" in hint:
        yield consented(argv[: argv.index("--")], model)


def with_words(argv: tuple[str, ...], hint: str) -> Iterator[tuple[str, ...]]:
    """`--gpu H100:2 --tensor-parallel 2`, `-- --flag 7`, `--tensor-parallel 2, 4 or 8, ...`."""
    words = shlex.split(hint)
    if words[0] == "--":
        own = argv[: argv.index("--")] if "--" in argv else argv
        yield consented((*own, *words), argv[1])
    elif several := re.match(r"(--[\w-]+) (\d+), (\d+) or (\d+)", hint):
        for number in several.groups()[1:]:
            yield consented(with_option(argv, several[1], number), argv[1])
    else:
        for name, value in zip(words[::2], words[1::2], strict=True):
            argv = with_option(argv, name, value)
        yield consented(argv, argv[1])


def with_option(argv: tuple[str, ...], name: str, value: str) -> tuple[str, ...]:
    end = argv.index("--") if "--" in argv else len(argv)
    own, rest = [*argv[:end]], argv[end:]
    if name in own:
        own[own.index(name) + 1] = value
        return (*own, *rest)
    return (*own, name, value, *rest)


def consented(argv: tuple[str, ...], model: str) -> tuple[str, ...]:
    """With the agreement to a repository's own code, which no hint may give for the user."""
    if argv[0] != "plan" or registry.load(user=False).find(model).target.remote_code == "none":
        return argv
    end = argv.index("--") if "--" in argv else len(argv)
    draft = "--speculative-draft-model-revision" if "sglang" in argv else "-sc.revision"
    known = registry.load(user=False).find(model)
    pins = () if known.target.weights[0].revision else ("--revision", COMMIT)
    if known.model.drafts and not known.model.drafts[0].revision:
        pins = (*pins, draft, COMMIT)
    rest = argv[end + 1 :]
    further = (*rest, *pins)
    return (*argv[:end], "--trust-remote-code", *(("--", *further) if further else ()))
