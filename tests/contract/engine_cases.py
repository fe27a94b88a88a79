"""The registry's plans as cases for the engines' own code, and the verdicts on them.

A case is a command line whose hub ids are replaced by folders of tests/fixtures/configs, so that an
engine can read both config.json files; a pair without them is left to the engine's parser.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest
from pins import pins

from dflash_deploy.choose import highest_floor
from dflash_deploy.errors import EngineError, Unsupported
from dflash_deploy.hardware import parse
from dflash_deploy.plan import Plan, make_plan
from dflash_deploy.registry import Entry, load
from dflash_deploy.request import Request
from dflash_deploy.schema import Draft, EngineName

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures" / "configs"
REGISTRY = load(user=False)
CARDS = ("A100", "H100", "B200", "RTX-5090")
"""One of each architecture whose attention kernels differ."""
COUNT = 32
"""Enough cards for every target."""
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"concurrency": 1},
    {"concurrency": 64},
    {"concurrency": 256},
    {"kv_dtype": "fp8"},
    {"context": 131072},
)
ENGINES: tuple[EngineName, ...] = ("vllm", "sglang")
TIMEOUT = pytest.mark.timeout(1800)
"""For a test that may have to fetch an engine, and torch, before it judges."""
OF_ITS_TIME = {
    ("vllm", "0.26.0"): (
        "transformers==5.14.1", "tokenizers==0.22.2", "huggingface-hub==1.33.0",
    ),
}  # fmt: skip
"""For a release that asks for "this or newer", and fails with what is newer: transformers 5.15 and
later keep Gemma 4's head sizes where vLLM 0.26.0 does not look for them."""


class Release(NamedTuple):
    engine: EngineName
    version: str

    def __str__(self) -> str:
        return f"{self.engine}-{self.version}"


def newest(engine: EngineName) -> str:
    return REGISTRY.engines[engine].releases[-1].version


RELEASES = (
    Release("vllm", newest("vllm")),
    Release("vllm", "0.26.0"),
    Release("sglang", newest("sglang")),
    Release("sglang", "0.5.17"),
)
"""The newest, and the newest that runs on torch 2.11, where many installations are held."""
Judged = tuple[Release, dict[str, dict[str, Any]]]
"""A release, and its verdicts by the id of what was judged."""


@dataclass(frozen=True)
class Case:
    """A command line for one release, on some cards."""

    id: str
    argv: tuple[str, ...]
    env: dict[str, str]
    gpu: str
    level: Literal["parser", "config"]
    plan: Plan

    def message(self) -> dict[str, Any]:
        """What the checker in the engine's environment reads."""
        card = next(card for card in REGISTRY.gpus if card.id == self.gpu)
        return {
            "id": self.id,
            "argv": self.argv,
            "env": self.env,
            "compute_capability": card.compute_capability,
            "memory_gib": card.memory_gib,
            "cards": COUNT,
            "level": self.level,
        }


def pairs(engine: EngineName) -> Iterator[tuple[Entry, Draft]]:
    """What somebody can ask this engine to serve: an entry with each draft that has a recipe."""
    for entry in REGISTRY.entries.values():
        if entry.model.unservable:
            continue
        drafts = [
            entry.draft(recipe.draft)
            for recipe in entry.model.recipes
            if recipe.when.engine in (None, engine)
        ]
        for draft in dict.fromkeys(draft.id for draft in drafts):
            yield entry, entry.draft(draft)


def floor(engine: EngineName, entry: Entry, draft: Draft) -> str | None:
    first = highest_floor(entry, REGISTRY.engines[engine], engine, draft)
    return first.version if first else None


def answers(
    engine: EngineName, entry: Entry, draft: Draft, version: str
) -> Iterator[tuple[str, str, Plan | Unsupported | EngineError]]:
    """A plan or a refusal for every card and option: what was asked, the card, the answer."""
    for gpu in CARDS:
        for options in OPTIONS:
            said = " ".join(f"{name}={value}" for name, value in options.items())
            request = Request(
                model=draft.id if draft != entry.draft(None) else entry.id,
                engine=engine, engine_version=version, trust_remote_code=True,
                engine_args=pins(REGISTRY, entry, draft, engine, version), **options,
            )  # fmt: skip
            asked = f"{request.model} {engine} {version} {gpu}:{COUNT} {said}".rstrip()
            try:
                yield (
                    asked,
                    gpu,
                    make_plan(REGISTRY, request, parse(f"{gpu}:{COUNT}", REGISTRY.gpus)),
                )
            except (Unsupported, EngineError) as refusal:
                yield asked, gpu, refusal


@cache
def cases(release: Release) -> tuple[Case, ...]:
    """Every command line that this registry writes for a release, each once."""
    seen: dict[object, Case] = {}
    for entry, draft in pairs(release.engine):
        for asked, gpu, answer in answers(release.engine, entry, draft, release.version):
            if isinstance(answer, Plan):
                case = as_case(asked, gpu, answer, judge_config=release != RELEASES[-1])
                card = gpu if case.level == "config" else None
                seen.setdefault((case.argv, tuple(case.env.items()), card), case)
    return tuple(seen.values())


def as_case(asked: str, gpu: str, plan: Plan, *, judge_config: bool) -> Case:
    """A plan as a case; without fixtures, or a configuration of its own, for the parser alone."""
    target, draft = folder(plan.target.id, plan.engine), folder(plan.draft.id, plan.engine)
    if plan.draft.path:
        draft = Path(plan.draft.path)
    argv = plan.argv[2:]
    if target is None or draft is None or not judge_config:
        return Case(asked, argv, plan.env, gpu, "parser", plan)
    local = on_disk_vllm if plan.engine == "vllm" else on_disk_sglang
    return Case(asked, tuple(local(argv, str(target), str(draft))), plan.env, gpu, "config", plan)


def folder(hub_id: str, engine: str) -> Path | None:
    """The fixture of a repository: one of this engine's own, else the one for all."""
    for path in (FIXTURES / hub_id / engine, FIXTURES / hub_id):
        if (path / "config.json").is_file():
            return path
    return None


def on_disk_vllm(argv: Iterable[str], target: str, draft: str) -> Iterator[str]:
    words = iter(argv)
    next(words)  # the target's hub id
    yield target
    for word in words:
        if word == "--revision":
            next(words)
        elif word == "--speculative-config":
            said = json.loads(next(words)) | {"model": draft}
            said.pop("revision", None)
            yield from (word, json.dumps(said))
        else:
            yield word


def on_disk_sglang(argv: Iterable[str], target: str, draft: str) -> Iterator[str]:
    folders = {"--model-path": target, "--speculative-draft-model-path": draft}
    words = iter(argv)
    for word in words:
        if word in ("--revision", "--speculative-draft-model-revision"):
            next(words)
        elif word in folders:
            next(words)
            yield from (word, folders[word])
        else:
            yield word


def fetch(release: Release) -> tuple[Any, list[str]]:
    """The release's environment, built where it is missing, and its path of packages."""
    made = engine_env().environment(release.engine, release.version)
    return made, [*older_packages(release), made.env["PYTHONPATH"]]


def judge(
    release: Release, messages: Iterable[dict[str, Any]], within_s: float | None = None
) -> dict[str, dict[str, Any]]:
    """The release's own verdict on each case, by id; one process for all of them.

    Raises subprocess.TimeoutExpired where they take longer, fetching the release apart.
    """
    made, path = fetch(release)
    done = subprocess.run(
        [str(made.python), str(ROOT / "tools" / f"check_{release.engine}.py")],
        input="".join(json.dumps(message) + "\n" for message in messages),
        env=os.environ | made.env | {"PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, check=False, timeout=within_s,
    )  # fmt: skip
    verdicts = {verdict["id"]: verdict for verdict in map(json.loads, done.stdout.splitlines())}
    if done.returncode or not verdicts:
        raise RuntimeError(f"{release}: the check ended with {done.returncode}:\n{done.stderr}")
    return verdicts


def engine_env() -> Any:
    """tools/ is no package: its files are started, and find each other by name."""
    tools = str(ROOT / "tools")
    if tools not in sys.path:
        sys.path.insert(0, tools)
    return import_module("engine_env")


def older_packages(release: Release) -> list[str]:
    """Where the packages are that a release needs older than the shared environment has them."""
    pins = OF_ITS_TIME.get((release.engine, release.version))
    if pins is None:
        return []
    environments = engine_env()

    def install(folder: Path) -> None:
        environments._run(sys.executable, "-m", "pip", "install", "--no-deps", "--no-cache-dir",
                          "--disable-pip-version-check", "--target", str(folder), *pins)  # fmt: skip

    return [str(environments._made(environments._name(f"older-{release}", *pins), install))]
