"""The commands of every entry, release and card that matter, reviewed as diffs.

Write them anew with `pytest tests/unit/test_golden_plans.py --update`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version
from pins import pins

from dflash_deploy.choose import highest_floor, intended_draft
from dflash_deploy.hardware import Hardware, parse
from dflash_deploy.plan import make_plan
from dflash_deploy.registry import load
from dflash_deploy.render.command import render
from dflash_deploy.request import Request

GOLDEN = Path(__file__).parents[1] / "golden" / "plans"
REGISTRY = load(user=False)
RELEASES = {"vllm": ("0.26.0", "0.33.0"), "sglang": ("0.5.14", "0.5.23"), "transformers": (None,)}
"""The two that differ most in flags; a pair that starts later is planned for its own first."""
CARDS = {"vllm": ("H200:8",), "sglang": ("H200:8", "B200:8"), "transformers": (None,)}
FAMILIES = ("Qwen/Qwen3-8B", "Qwen/Qwen3.5-4B", "google/gemma-4-31B-it", "openai/gpt-oss-20b")
"""Dense, hybrid, sliding with heads of their own, and attention sinks: what cards differ in."""
OTHERS = ("RTX-4090:8", "A100:8", "B200:8", "RTX-PRO-6000:8")
FP8 = ("RTX-4090:8", "B200:8", "RTX-PRO-6000:8")
"""Not on Ampere, where no release of vLLM runs Gemma 4 or gpt-oss with an fp8 cache."""


def _cases():
    for name, entry in REGISTRY.entries.items():
        for engine in sorted({recipe.when.engine for recipe in entry.model.recipes}):
            yield name, engine


@pytest.mark.parametrize(("name", "engine"), list(_cases()))
def test_the_commands_are_the_reviewed_ones(name, engine, request):
    _review(GOLDEN / name / f"{engine}.txt", _commands(name, engine), request)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_other_cards_get_the_reviewed_commands(name, engine, request):
    """Of a load that is stated, so that memory decides nothing here; each command once."""
    release = RELEASES[engine][-1]
    cards = {}
    for kv_dtype, gpus in (("auto", OTHERS), ("fp8", FP8 if engine == "vllm" else ())):
        for gpu in gpus:
            cards.setdefault(
                _command(name, engine, release, gpu, concurrency=8, kv_dtype=kv_dtype), []
            ).append(gpu)
    written = (
        f"# {engine} {release} {', '.join(gpus)}\n{command}" for command, gpus in cards.items()
    )
    _review(GOLDEN / name / f"{engine}-cards.txt", written, request)


def _review(path, commands, request):
    written = "\n\n".join(commands) + "\n"
    if request.config.getoption("--update"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(written)
    assert path.read_text() == written


def _commands(name, engine):
    entry, known = REGISTRY.entries[name], REGISTRY.engines[engine]
    draft = intended_draft(entry, Request(model=name, engine=engine))
    floor = highest_floor(entry, known, engine, draft)
    for release in RELEASES[engine]:
        early = release and floor and Version(release) < Version(floor.version)
        version = floor.version if early else release
        for gpu in CARDS[engine]:
            words = pins(REGISTRY, entry, draft, engine, version)
            command = _command(name, engine, version, gpu, engine_args=words)
            yield f"# {engine} {version or ''} {gpu or 'any machine'}\n{command}"


def _command(name, engine, version, gpu, **options):
    hardware = parse(gpu, REGISTRY.gpus) if gpu else Hardware()
    wish = Request(
        model=name, engine=engine, engine_version=version, trust_remote_code=True, **options
    )
    return render(make_plan(REGISTRY, wish, hardware)).replace(str(GOLDEN.parents[2]), "$ROOT")
