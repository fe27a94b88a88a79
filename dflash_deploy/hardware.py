"""The cards a plan is for: given by name, found on this machine, or none at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dflash_deploy.errors import UsageError
from dflash_deploy.schema import Architecture, Gpu

MOST_CARDS = 4096


@dataclass(frozen=True)
class Card:
    name: str
    architecture: Architecture | None
    memory_gib: float


@dataclass(frozen=True)
class Hardware:
    cards: tuple[Card, ...] = ()
    origin: Literal["given", "found", "none"] = "none"

    @property
    def architecture(self) -> Architecture | None:
        """What all cards have in common; None when unknown or mixed."""
        found = {card.architecture for card in self.cards}
        return found.pop() if len(found) == 1 else None

    @property
    def memory_gib(self) -> float | None:
        """Of the smallest card."""
        return min((card.memory_gib for card in self.cards), default=None)

    def __str__(self) -> str:
        if not self.cards:
            return "unknown GPU"
        return f"{len(self.cards)} x {self.cards[0].name}"


def parse(text: str, gpus: Sequence[Gpu]) -> Hardware:
    """`H100` or `H100:2`, from the closed vocabulary of `registry/gpus.yaml`."""
    name, _, count = text.partition(":")
    gpu = next((gpu for gpu in gpus if gpu.id.lower() == name.lower()), None)
    if gpu is None:
        known = ", ".join(gpu.id for gpu in gpus)
        raise UsageError(f"--gpu {text}: no such card", hint=f"one of {known}")
    if count and not (count.isascii() and count.isdecimal() and 1 <= int(count[:6]) <= MOST_CARDS):
        raise UsageError(f"--gpu {text}: `{count}` is not a number of cards", hint="--gpu H100:2")
    card = Card(gpu.id, gpu.architecture, gpu.memory_gib)
    return Hardware((card,) * int(count or 1), "given")


def probe(gpus: Sequence[Gpu]) -> Hardware:
    """Ask NVML. A machine without a driver, or without a card, is a normal case."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return Hardware()
    try:
        cards = tuple(_cards(pynvml, gpus))
    except pynvml.NVMLError:
        return Hardware()
    finally:
        pynvml.nvmlShutdown()
    return Hardware(cards, "found" if cards else "none")


def _cards(nvml: Any, gpus: Sequence[Gpu]) -> Iterable[Card]:
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        name = str(nvml.nvmlDeviceGetName(handle))
        total: int = nvml.nvmlDeviceGetMemoryInfo(handle).total
        known = _recognise(name, gpus)
        if known:
            yield Card(known.id, known.architecture, total / 2**30)
        else:
            yield Card(name, None, total / 2**30)


def _recognise(name: str, gpus: Sequence[Gpu]) -> Gpu | None:
    """The longest vocabulary name inside NVML's: `A100-SXM4-40GB` before `A100`, L40S before L4."""
    # whole words: an L40 is no L4
    said = f" {name} ".replace("-", " ")
    matches = [
        (len(part), gpu)
        for gpu in gpus
        for part in gpu.names
        if f" {part.replace('-', ' ')} " in said
    ]
    return max(matches, key=lambda match: match[0])[1] if matches else None
