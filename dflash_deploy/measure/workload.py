"""What a benchmark asks: this project's own prompts, a model card's dataset, or the user's file."""

from __future__ import annotations

import difflib
from collections import Counter
from functools import cache
from pathlib import Path

import msgspec

from dflash_deploy import registry
from dflash_deploy.errors import DownloadError, UsageError
from dflash_deploy.hub.dataset import Row, dataset_rows
from dflash_deploy.hub.sources import Phase
from dflash_deploy.measure.long_text import Parts, long_prompts
from dflash_deploy.measure.prompts import Prompt, digest, read_prompts, sample
from dflash_deploy.measure.report import Workload
from dflash_deploy.resources import registry_root

__all__ = ["DEFAULT", "OWN", "Prompt", "hub_datasets", "load_workload"]

DEFAULT = "mixed"
"""All of this project's own, in turn; needs no network."""
LONG = "long-context"
OWN = ("math", "code", "chat", "extraction", "translation", LONG, "chinese")
OWN_TOKENS, CARD_TOKENS = 512, 2048
"""Of an answer at most. The cards' numbers allow 2048."""


class HubDataset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A dataset that model cards publish numbers on, and how they ask its questions."""

    name: str
    category: str
    repository: str
    revision: str
    file: str
    prompt: str
    """A format string over the fields of a row."""
    answer: str | None = None
    """The field that ends in the answer."""


class _Catalogue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    datasets: list[HubDataset]


@cache
def hub_datasets() -> dict[str, HubDataset]:
    found = registry.read(_folder() / "hub.yaml", _Catalogue)
    return {dataset.name: dataset for dataset in found.datasets}


def load_workload(
    name_or_path: str, *, limit: int | None, seed: int, on_phase: Phase = lambda _: None
) -> tuple[Workload, list[Prompt]]:
    """The prompts to send, in order, and what a report says of them.

    The same name, limit and seed give the same prompts on every machine. Raises UsageError for a
    name or file that is none, DownloadError where a dataset is neither here nor to be had.
    """
    name = name_or_path.lower()
    if name == DEFAULT:
        every = [prompt for each in OWN for prompt in _own(each)]
        source = "written for dflash-deploy"
    elif name in OWN:
        every, source = _own(name), "written for dflash-deploy"
    elif (dataset := hub_datasets().get(name)) is not None:
        every = _asked(dataset, on_phase)
        source = f"{dataset.repository}@{dataset.revision[:12]}"
    else:
        path = _user_file(name_or_path)
        name, every, source = path.stem, read_prompts(path, "own"), path.name
    prompts = sample(every, limit, seed)
    return Workload(
        name=name, source=source, sha256=digest(prompts), prompts=len(prompts),
        max_tokens=CARD_TOKENS if name in hub_datasets() else OWN_TOKENS,
        categories=dict(Counter(prompt.category for prompt in prompts)),
    ), prompts  # fmt: skip


def _own(category: str) -> list[Prompt]:
    if category == LONG:
        parts = registry.read(_folder() / f"{LONG}.yaml", Parts)
        return [Prompt(text, LONG, answer) for text, answer in long_prompts(parts)]
    return read_prompts(_folder() / f"{category}.jsonl", category)


def _asked(dataset: HubDataset, on_phase: Phase) -> list[Prompt]:
    rows = dataset_rows(dataset.repository, dataset.revision, dataset.file, on_phase)
    try:
        return [_question(dataset, row) for row in rows]
    except (LookupError, TypeError) as error:
        raise DownloadError(
            f"{dataset.repository} at {dataset.revision[:12]} has other fields than it should",
            hint="is HF_ENDPOINT right? What it gave is kept in the cache folder, under datasets",
            detail=f"{type(error).__name__}: {error}",
        ) from error


def _question(dataset: HubDataset, row: Row) -> Prompt:
    text = dataset.prompt.format(**row)
    if dataset.answer is None:
        return Prompt(text, dataset.category)
    # gsm8k's answers are a derivation, then `####`, then the number
    answer = str(row[dataset.answer]).rpartition("####")[2].strip()
    return Prompt(text, dataset.category, answer)


def _user_file(given: str) -> Path:
    path = Path(given).expanduser()
    if path.is_file() or "/" in given or path.suffix:
        return path
    known = (DEFAULT, *OWN, *hub_datasets())
    close = difflib.get_close_matches(given.lower(), known, n=1)
    raise UsageError(
        f"no workload `{given}`, and no file of that name",
        hint=f"did you mean {close[0]}?" if close else f"one of {', '.join(known)}, or a .jsonl",
    )


def _folder() -> Path:
    return registry_root() / "workloads"
