"""The cards, as the hardware probe found them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dflash_deploy.doctor.finding import Finding, State
from dflash_deploy.hardware import Card, Hardware, Hidden

ON_CPU = "dflash chat smollm2-135m"
"""What works on any machine."""
SMALLEST_SHARE = 0.5
"""Of a card: with less of its memory free, somebody else is on it."""


def usable(hardware: Hardware | None) -> bool:
    """Whether CUDA programs get a card here."""
    return bool(hardware and hardware.cards and not _without_cuda(hardware))


def findings(hardware: Hardware) -> Iterator[Finding]:
    yield from (_card(number, card) for number, card in enumerate(hardware.cards))
    if hardware.driver and hardware.cards:
        yield Finding("gpu", "ok", _driver(hardware))
    yield from _missing(hardware)
    yield from _aside(hardware)


def _card(number: int, card: Card) -> Finding:
    parts = [f"{number}: {card.name}{f' {card.mig} slice' if card.mig else ''}", _kind(card)]
    parts += [_memory(card)]
    if card.processes:
        several = "es" if card.processes > 1 else ""
        parts.append(f"used by {card.processes} process{several}")
    text = ", ".join(part for part in parts if part)
    if card.architecture is None and card.compute_capability:
        return Finding("gpu", "note", f"{text}: no recipe covers this architecture")
    if card.free_gib is not None and card.free_gib < SMALLEST_SHARE * card.memory_gib:
        where = "free -h" if card.unified else "nvidia-smi"
        return Finding("gpu", "note", f"{text}: somebody else holds most of it", where)
    return Finding("gpu", "ok", text)


def _kind(card: Card) -> str:
    return " ".join(filter(None, (card.architecture, card.compute_capability)))


def _memory(card: Card) -> str:
    if not card.memory_gib:
        return "memory not told"
    free = "" if card.free_gib is None else f", {card.free_gib:.1f} free"
    return f"{card.memory_gib:.1f} GiB{free}"


def _driver(hardware: Hardware) -> str:
    cuda = f", runs CUDA up to {hardware.cuda}" if hardware.cuda else ""
    lacking = "; no NVLink" if len(hardware.cards) == 2 else "; not every two joined by NVLink"
    linked = {None: "", True: "; NVLink between all cards", False: lacking}
    return f"driver {hardware.driver}{cuda}{linked[hardware.nvlink]}"


def _missing(hardware: Hardware) -> Iterator[Finding]:
    """Why there are no cards, or fewer than there could be."""
    if hardware.trouble:
        if hardware.cause == "no-library" and not hardware.on_bus:
            yield Finding("gpu", "ok", "no NVIDIA GPU here: small models run on the CPU", ON_CPU)
            return
        seen = f" ({hardware.on_bus} on the PCI bus)" if hardware.on_bus else ""
        state: State = "note" if hardware.cards else "problem"
        yield Finding("gpu", state, hardware.trouble + seen, hardware.remedy)
    elif not hardware.cards and hardware.hidden:
        # the notes say what the variable did
        text = f"no GPU that CUDA may use: hidden are {_named(hardware.hidden)}"
        yield Finding("gpu", "problem", text, "unset CUDA_VISIBLE_DEVICES")
    elif not hardware.cards:
        yield Finding("gpu", "ok", "no NVIDIA GPU here: small models run on the CPU", ON_CPU)


def _aside(hardware: Hardware) -> Iterator[Finding]:
    if hardware.cards:
        for why in dict.fromkeys(hidden.why for hidden in hardware.hidden):
            alike = [hidden for hidden in hardware.hidden if hidden.why == why]
            yield Finding("gpu", "note", f"not used: {_named(alike)}; {why}")
    for note in hardware.notes:
        if note == _without_cuda(hardware):
            remedy = "start the container with -e NVIDIA_DRIVER_CAPABILITIES=compute,utility"
            yield Finding("gpu", "problem", note, remedy)
        else:
            yield Finding("gpu", "note", note)


def _named(hidden: Sequence[Hidden]) -> str:
    return str(Hardware(tuple(each.card for each in hidden)))


def _without_cuda(hardware: Hardware) -> str | None:
    return next((note for note in hardware.notes if note.startswith("libcuda")), None)
