"""What a training run is: one frozen value, written to its folder before anything else."""

from __future__ import annotations

from math import exp
from pathlib import Path

import msgspec

from dflash_deploy.errors import UsageError, unread
from dflash_deploy.train.files import write_whole

FILE = "recipe.json"
DECAY = {16: 7.0, 10: 5.0, 8: 4.0}
"""How far into a block a token counts, by block size: arXiv 2602.06036."""
TAPS = 5
MASK_HINT = "--mask-token ID, of a token that no text contains"
OWN_TOKENS = 96
"""Of a prompt that the target writes; one that has not ended by then is dropped."""
ANSWERS = ("answers.jsonl", "held-out.jsonl")
"""The files of a run whose answers are all there: nobody is asked again."""
MEASURED = "acceptance.json"
"""The last file of a run: its draft is whole, and was measured."""
MOVES = frozenset({"model", "url", "served_name", "path"})
"""May differ when a run is taken up again: they say where things are, not what they are."""


class Recipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that decides what the draft becomes. The same recipe and answers give the same draft."""

    target: str
    """The target's hub id."""
    model: str
    """Where its weights are: a folder, or the hub id again."""
    revision: str | None = None
    weights: str | None = None
    """Which of the target's, as its entry names them."""
    trust_remote_code: bool = False
    draft: str
    """The hub id that the draft is to have."""
    path: str | None = None
    """The prompts' file; None: this project's own."""
    prompts: int = 1000
    self_prompts: int = 0
    """More that the target writes itself before it answers."""
    held_out: int = 16
    """Of the prompts, those that no step sees: acceptance is measured on them."""
    url: str | None = None
    """The server that answers; None: the target, here."""
    served_name: str | None = None
    sampled: float = 0.4
    """Part of the answers that is drawn at `temperature`; the others are greedy."""
    temperature: float = 0.7
    answer_tokens: int = 256
    length: int = 512
    """Tokens of prompt and answer that are trained on."""
    start: str | None = None
    """The folder of a draft to go on with, which says what the next four are; None: fresh."""
    layers: int = 5
    block_size: int = 8
    mask_token_id: int | None = None
    selector_rank: int = 0
    """Of a DFlash 2 draft's path selector; 0: a DFlash draft."""
    steps: int = 2000
    batch: int = 8
    anchors: int = 64
    """Blocks drawn from each sequence at each step."""
    learning_rate: float = 0.02
    dpace: bool = False
    """Tokens count by the draft's own chances, not by `weights`."""
    seed: int = 0


def weights(block_size: int) -> list[float]:
    """What each drafted token of a block counts in the loss: exp(-(k - 1) / gamma)."""
    gamma = DECAY.get(block_size, block_size / 2)
    return [exp(-k / gamma) for k in range(block_size - 1)]


def taps(layers: int) -> list[int]:
    """Which layers of the target the draft reads: evenly from the second to the third-to-last."""
    last = max(layers - 3, 1)
    count = min(TAPS, last)
    if layers < 3 or count == 1:
        return [min(1, layers - 1)]
    return [round(1 + index * (last - 1) / (count - 1)) for index in range(count)]


def draft_folder(folder: Path, recipe: Recipe) -> Path:
    """Where in a run's folder its draft comes to stand."""
    return folder / recipe.draft.rpartition("/")[2]


def read(folder: Path) -> Recipe | None:
    """The recipe of a run that was begun here. Raises UsageError for a file that is none."""
    file = folder / FILE
    try:
        return msgspec.json.decode(file.read_bytes(), type=Recipe)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        why = unread(error) if isinstance(error, OSError) else str(error)
        raise UsageError(f"{file} cannot be read: {why}", hint="another --output") from error


def begin(folder: Path, recipe: Recipe) -> None:
    """Write the recipe, or check that the run begun here is the same. Raises UsageError."""
    before = read(folder)
    if before is not None:
        check(folder, before, recipe)
    text = msgspec.json.format(msgspec.json.encode(recipe), indent=1)
    write_whole(folder / FILE, text + b"\n")


def check(folder: Path, before: Recipe, recipe: Recipe) -> None:
    """Raises UsageError if the recipe is not the one that was begun."""
    other = [
        f"{name} {old!r}, not {getattr(recipe, name)!r}"
        for name, old in msgspec.structs.asdict(before).items()
        if name not in MOVES and old != getattr(recipe, name)
    ]
    if other:
        raise UsageError(
            f"{folder} holds a run with {'; '.join(other)}",
            hint="the same options as then, or another --output",
        )
