"""What a run will take, before it takes it: sums that are said with their figures. Pure."""

from __future__ import annotations

import msgspec

from dflash_deploy.schema import Target
from dflash_deploy.train.recipe import OWN_TOKENS, Recipe, taps

GIB = 1 << 30
UNITS = {"M": 1e6, "B": 1e9, "T": 1e12}
STATE = 12
"""Bytes a draft parameter: itself, its gradient and its momentum, in float32."""
KEPT = 16
"""Rows of hidden size that a layer keeps for the backward pass."""
LOGITS = 1024
TOKEN_BYTES = 8
"""Of a line of answers, for each token and its mark."""


class Device(msgspec.Struct, frozen=True):
    """Assumed, not measured: the run says its own pace once it has one."""

    name: str
    bytes: int
    """Of a weight of the target."""
    bandwidth: float
    """Bytes a second that decoding reads weights at."""
    arithmetic: float
    """Operations a second that a training step reaches."""


CPU = Device("this CPU", 4, 12e9, 40e9)
GPU = Device("a data-centre GPU", 2, 1e12, 5e13)
SERVER_RATE = 2000.0
"""Tokens a second of a server with several requests at once."""


class Sum(msgspec.Struct, frozen=True):
    """One quantity; `formula` has the numbers in it."""

    what: str
    value: float
    """Bytes, or seconds."""
    formula: str


class Size(msgspec.Struct, frozen=True):
    parameters: float
    hidden: int
    vocabulary: int
    layers: int

    @property
    def layer(self) -> float:
        """Of a draft's layer: like one of the target's, and never more than a dense one."""
        dense = 12 * self.hidden**2
        return min(dense, max((self.parameters - self.vocabulary * self.hidden) / self.layers, 1))

    def draft(self, recipe: Recipe) -> float:
        codebooks = 2 * recipe.selector_rank * self.vocabulary
        return recipe.layers * self.layer + len(taps(self.layers)) * self.hidden**2 + codebooks


class Estimate(msgspec.Struct, frozen=True):
    device: str
    draft_parameters: int
    time: list[Sum]
    memory: list[Sum]
    disk: list[Sum]

    @property
    def seconds(self) -> float:
        return sum(each.value for each in self.time)

    @property
    def memory_bytes(self) -> float:
        return sum(each.value for each in self.memory)

    @property
    def disk_bytes(self) -> float:
        return sum(each.value for each in self.disk)


def size_of(target: Target) -> Size | None:
    """None where the target's entry does not say enough."""
    layers = sum(group.count for group in target.layers)
    parameters = count(target.parameters) or next(
        (weights.gib * GIB / 2 for weights in target.weights if weights.gib), None
    )
    if not (parameters and layers and target.hidden_size and target.vocab_size):
        return None
    return Size(parameters, target.hidden_size, target.vocab_size, layers)


def count(said: str | None) -> float | None:
    """`135M` as a number."""
    if not said or said[-1] not in UNITS:
        return None
    try:
        return float(said[:-1]) * UNITS[said[-1]]
    except ValueError:
        return None


def estimate(recipe: Recipe, size: Size, device: Device) -> Estimate:
    draft = size.draft(recipe)
    return Estimate(
        device.name, round(draft), time(recipe, size, device), memory(recipe, size, device, draft),
        disk(recipe, draft),
    )  # fmt: skip


def time(recipe: Recipe, size: Size, device: Device) -> list[Sum]:
    answer = min(recipe.answer_tokens, recipe.length)
    tokens = (recipe.prompts + recipe.self_prompts) * answer
    rate = device.bandwidth / (size.parameters * device.bytes)
    said = f"{device.bandwidth / 1e9:.0f} GB/s / {size.parameters * device.bytes / 1e9:.2f} GB"
    if recipe.url:
        rate, said = SERVER_RATE, "assumed of a server"
    context = recipe.batch * recipe.length
    rows = recipe.batch * recipe.anchors * recipe.block_size
    operations = (
        2 * size.parameters * context
        + 6 * size.draft(recipe) * (context + rows)
        + 8 * size.vocabulary * size.hidden * rows
    )
    held = 2 * recipe.held_out * answer
    local = device.bandwidth / (size.parameters * device.bytes)
    own = recipe.self_prompts * OWN_TOKENS
    asked = [Sum("own prompts", own / local, f"{own:,} tokens / {local:,.0f} a second")]
    return [
        *(asked if own else ()),
        Sum("answers", tokens / rate, f"{tokens:,.0f} tokens / {rate:,.0f} a second ({said})"),
        Sum("training", recipe.steps * operations / device.arithmetic,
            f"{recipe.steps:,} steps x {operations / 1e9:,.0f} G operations /"
            f" {device.arithmetic / 1e9:,.0f} G a second"),
        Sum("acceptance", held / local, f"{held:,} tokens, with and without the draft"),
    ]  # fmt: skip


def memory(recipe: Recipe, size: Size, device: Device, draft: float) -> list[Sum]:
    rows = recipe.anchors * recipe.block_size
    places = recipe.batch * (recipe.length + 2 * rows)
    kept = places * recipe.layers * KEPT * size.hidden * device.bytes
    states = recipe.batch * recipe.length * (size.layers + 1) * size.hidden * device.bytes
    masks = recipe.batch * rows * (recipe.length + rows)
    logits = 3 * LOGITS * size.vocabulary * 4
    return [
        Sum("target", size.parameters * device.bytes,
            f"{size.parameters / 1e6:,.0f}M parameters x {device.bytes} bytes"),
        Sum("draft", draft * STATE, f"{draft / 1e6:,.1f}M parameters x {STATE} bytes"),
        Sum("a step", kept + states + masks + logits,
            f"{places:,} rows x {recipe.layers} layers x {KEPT * size.hidden:,} x {device.bytes}"
            f" bytes, the target's states, logits of {LOGITS} rows"),
    ]  # fmt: skip


def disk(recipe: Recipe, draft: float) -> list[Sum]:
    tokens = (recipe.prompts + recipe.self_prompts) * recipe.length
    return [
        Sum("answers", tokens * TOKEN_BYTES, f"{tokens:,} tokens x {TOKEN_BYTES} bytes"),
        Sum("checkpoint", 2 * draft * 8, f"2 x {draft / 1e6:,.1f}M parameters x 8 bytes"),
        Sum("draft", 2 * draft, f"{draft / 1e6:,.1f}M parameters x 2 bytes"),
    ]
