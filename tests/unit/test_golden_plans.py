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


def _cases():
    for name, entry in REGISTRY.entries.items():
        for engine in sorted({recipe.when.engine for recipe in entry.model.recipes}):
            yield name, engine


@pytest.mark.parametrize(("name", "engine"), list(_cases()))
def test_the_commands_are_the_reviewed_ones(name, engine, request):
    written = "\n\n".join(_commands(name, engine)) + "\n"
    path = GOLDEN / name / f"{engine}.txt"
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
            hardware = parse(gpu, REGISTRY.gpus) if gpu else Hardware()
            wish = Request(
                model=name, engine=engine, engine_version=version, trust_remote_code=True,
                engine_args=pins(REGISTRY, entry, draft, engine, version),
            )  # fmt: skip
            plan = make_plan(REGISTRY, wish, hardware)
            command = render(plan).replace(str(GOLDEN.parents[2]), "$ROOT")
            yield f"# {engine} {version or ''} {gpu or 'any machine'}\n{command}"
