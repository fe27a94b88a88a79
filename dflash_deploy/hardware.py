"""The cards a plan is for: given by name, found on this machine, or none at all."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from dflash_deploy import amd, nvml, pci, visible
from dflash_deploy.amd import AmdCard
from dflash_deploy.errors import UsageError
from dflash_deploy.nvml_trouble import Cause, Trouble
from dflash_deploy.schema import Architecture, Gpu

MOST_CARDS = 4096
GIB = 2**30
NO_SLICES = Trouble(
    "no-slices",
    "GPU {index} is in MIG mode and has no slices",
    "sudo nvidia-smi -i {index} -mig 0, or make slices with nvidia-smi mig -cgi",
)


class Card(msgspec.Struct, frozen=True):
    """A card, or one MIG slice of it, as an engine gets it."""

    name: str
    """Its id in the catalogue, or what NVML calls it."""
    architecture: Architecture | None
    memory_gib: float
    """As NVML counts, what the driver keeps for itself included; 0 where nobody knows."""
    free_gib: float | None = None
    reserved_gib: float | None = None
    """What the driver keeps for itself."""
    index: int | None = None
    """NVML's, in the order of the bus; of a slice, its card's."""
    uuid: str | None = None
    compute_capability: str | None = None
    unified: bool = False
    """Its memory is the CPU's: total and free are the system's."""
    mig: str | None = None
    """The slice's profile, `1g.10gb`."""
    processes: int | None = None
    processes_gib: float | None = None
    """Held by those processes, as far as NVML tells."""


class Hidden(msgspec.Struct, frozen=True):
    card: Card
    why: str


class Hardware(msgspec.Struct, frozen=True):
    """`cards` are those that CUDA would use now, in CUDA's order."""

    cards: tuple[Card, ...] = ()
    origin: Literal["given", "found", "none"] = "none"
    driver: str | None = None
    cuda: str | None = None
    """The newest CUDA that the driver runs, `13.0`."""
    nvlink: bool | None = None
    """Between every two of `cards`; None for one card, or where NVML does not say."""
    hidden: tuple[Hidden, ...] = ()
    trouble: str | None = None
    """One line: why there are no cards, or fewer than there should be."""
    cause: Cause | None = None
    remedy: str | None = None
    notes: tuple[str, ...] = ()
    amd: tuple[AmdCard, ...] = ()
    """Found, and not served."""
    on_bus: int = 0
    """NVIDIA cards that the PCI bus shows, with or without a driver; 0 also where it is unseen."""

    @property
    def architecture(self) -> Architecture | None:
        """What all cards have in common; None when unknown or mixed."""
        found = {card.architecture for card in self.cards}
        return found.pop() if len(found) == 1 else None

    @property
    def memory_gib(self) -> float | None:
        """Of the smallest card; None when that of any is unknown."""
        return min((card.memory_gib for card in self.cards), default=None) or None

    @property
    def free_gib(self) -> float | None:
        """Of the fullest card; None when that of any is unknown."""
        free = [card.free_gib for card in self.cards if card.free_gib is not None]
        return min(free) if free and len(free) == len(self.cards) else None

    def __str__(self) -> str:
        if not self.cards:
            return "unknown GPU"
        names = Counter(
            f"{card.name} {card.mig} slice" if card.mig else card.name for card in self.cards
        )
        return " + ".join(f"{count} x {name}" for name, count in names.items())


def parse(text: str, gpus: Sequence[Gpu]) -> Hardware:
    """`H100` or `H100:2`, from the vocabulary of `registry/gpus.yaml`; also in a driver's words."""
    name, _, count = text.partition(":")
    plain = _plain(name)
    gpu = next((gpu for gpu in gpus if _plain(gpu.id) == plain), None) or _recognise(name, gpus)
    if gpu is None:
        known = ", ".join(gpu.id for gpu in gpus)
        raise UsageError(f"--gpu {text}: no such card", hint=f"one of {known}; H100:2 for two")
    if count and not (count.isascii() and count.isdecimal() and 1 <= int(count[:6]) <= MOST_CARDS):
        raise UsageError(f"--gpu {text}: `{count}` is not a number of cards", hint="--gpu H100:2")
    card = Card(
        gpu.id, gpu.architecture, gpu.memory_gib, compute_capability=gpu.compute_capability,
        unified=_capability(gpu.compute_capability) in nvml.INTEGRATED,
    )  # fmt: skip
    return Hardware((card,) * int(count or 1), "given")


def _plain(name: str) -> str:
    """`RTX 4090`, `rtx-4090` and `rtx4090` are one."""
    return "".join(filter(str.isalnum, name)).lower()


def probe(gpus: Sequence[Gpu]) -> Hardware:
    """Ask NVML and the kernel. A machine without a driver, or without a card, is a normal case."""
    machine = nvml.read()
    places = [
        (place, part) for place, device in enumerate(machine.devices) for part in _parts(device)
    ]
    units = [
        visible.Unit(place, machine.devices[place].uuid, part.mig_ids) for place, part in places
    ]
    selection = visible.select(os.environ.get(visible.VARIABLE), units)
    every = [_card(machine.devices[place], part, gpus) for place, part in places]
    cards = tuple(every[index] for index in selection.chosen)
    trouble = _trouble(machine)
    found_amd = amd.read()
    notes = [selection.note, *_notes(machine, cards, found_amd)]
    said = trouble.message if trouble else None
    return Hardware(
        cards=cards,
        origin="found" if cards else "none",
        driver=machine.driver,
        cuda=machine.cuda,
        nvlink=_nvlink(machine, [units[index].card for index in selection.chosen]),
        hidden=tuple(Hidden(every[index], why) for index, why in sorted(selection.reasons.items())),
        trouble=said,
        cause=trouble.cause if trouble else None,
        remedy=trouble.remedy if trouble else None,
        notes=tuple(note for note in notes if note and note != said),
        amd=found_amd,
        on_bus=len(pci.cards(pci.NVIDIA)),
    )


def _parts(device: nvml.Device) -> tuple[nvml.Device, ...]:
    """In MIG mode a card is used by slice, and not at all without one."""
    return device.slices if device.mig_mode else (device,)


def _card(device: nvml.Device, part: nvml.Device, gpus: Sequence[Gpu]) -> Card:
    """`part` is the card itself, or a slice of it."""
    capability = None if device.capability is None else "{}.{}".format(*device.capability)
    known = _recognise(device.name, gpus)
    if known and capability not in (None, known.compute_capability):
        known = None  # a name that only sounds familiar
    total = part.total
    if total is None and known and part is device:
        total = known.memory_gib * GIB
    return Card(
        name=known.id if known else device.name,
        architecture=known.architecture if known else architecture_of(device.capability),
        memory_gib=(total or 0) / GIB,
        free_gib=_gib(part.free),
        reserved_gib=_gib(part.reserved),
        index=device.index,
        uuid=part.uuid,
        compute_capability=capability,
        unified=device.unified,
        # NVML writes a slice's profile behind its card's name
        mig=part.name.rpartition("MIG ")[2] or "slice" if part is not device else None,
        processes=part.processes,
        processes_gib=_gib(part.held),
    )


def _gib(size: int | None) -> float | None:
    return None if size is None else size / GIB


def _capability(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), int(minor)


def architecture_of(capability: tuple[int, int] | None) -> Architecture | None:
    """None for older cards, and for the few that no kernel here is built for."""
    match capability:
        case (8, 9):
            return "ada"
        case (8, _):
            return "ampere"
        case (9, _):
            return "hopper"
        case (10, _):
            return "blackwell"
        case (12, _):
            return "blackwell-rtx"
    return None


def _nvlink(machine: nvml.Machine, places: Sequence[int]) -> bool | None:
    """Whether every two of these are joined."""
    if len(places) < 2:
        return None
    states = [joined for one, two, joined in machine.links if one in places and two in places]
    if not all(states):
        return False
    return True if len(states) == len(places) * (len(places) - 1) // 2 else None


def _trouble(machine: nvml.Machine) -> Trouble | None:
    """The machine's, else the first broken card's, else that nothing here can be used."""
    if machine.trouble:
        return machine.trouble
    usable = any(_parts(device) for device in machine.devices)
    for index, trouble in machine.unreadable:
        # a scheduler that lends some cards refuses the others: no trouble while one is lent
        if trouble.cause != "no-permission" or not machine.devices:
            return msgspec.structs.replace(trouble, message=f"GPU {index}: {trouble.message}")
    if machine.devices and not usable:
        index = machine.devices[0].index
        return msgspec.structs.replace(
            NO_SLICES,
            message=NO_SLICES.message.format(index=index),
            remedy=NO_SLICES.remedy.format(index=index),
        )
    return None


def _notes(
    machine: nvml.Machine, cards: Sequence[Card], amd_cards: Sequence[AmdCard]
) -> Iterator[str]:
    if not machine.libcuda:
        yield "libcuda.so.1 was not found: NVML sees the cards, CUDA programs cannot use them"
    for index, trouble in machine.unreadable:
        if trouble.cause == "no-permission" and machine.devices:
            yield f"GPU {index} is not lent to this user"
    for device in machine.devices:
        if not _parts(device):
            yield NO_SLICES.message.format(index=device.index)
    yield from _card_notes(cards)
    if amd_cards:
        names = Counter(card.name for card in amd_cards)
        found = ", ".join(f"{count} x {name}" for name, count in names.items())
        yield f"AMD cards are not served: {found}"


def _card_notes(cards: Sequence[Card]) -> Iterator[str]:
    for card in cards:
        if card.unified:
            yield f"{card.name} shares the CPU's memory: total and free are the system's"
        elif card.free_gib is None:
            yield f"GPU {card.index}: NVML does not tell the memory of {card.name}"
    if len({(card.name, card.memory_gib) for card in cards}) > 1:
        ordered = os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
        order = (
            "" if ordered else "; CUDA numbers them by speed unless CUDA_DEVICE_ORDER=PCI_BUS_ID"
        )
        yield f"the cards differ, and the smallest decides{order}"


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
