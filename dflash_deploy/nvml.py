"""The only NVML probe: what the NVIDIA driver says, as plain values, and never an exception."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from dflash_deploy import pci
from dflash_deploy.nvml_trouble import Trouble, missing_package, trouble_of

# nvml.h: lost, and in need of a reset. All else that fails is something one is not told.
FATAL = {15, 16}
LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND = 12, 13
NVLINK_CAPABILITY, P2P_OK = 2, 0
# Jetson Xavier, Orin and Thor, and GB10: the CPU's memory is theirs, and NVML does not tell it.
INTEGRATED = {(7, 2), (8, 7), (11, 0), (12, 1)}


class Device(msgspec.Struct, frozen=True):
    """A card, or a slice of one in MIG mode. Sizes in bytes; None where NVML does not say."""

    index: int
    name: str
    uuid: str
    capability: tuple[int, int] | None = None
    total: int | None = None
    free: int | None = None
    reserved: int | None = None
    """What the driver keeps for itself: counted in `total`, never free."""
    unified: bool = False
    processes: int | None = None
    held: int | None = None
    """By those processes together."""
    mig_mode: bool = False
    slices: tuple[Device, ...] = ()
    mig_ids: tuple[str, ...] = ()


class Machine(msgspec.Struct, frozen=True):
    devices: tuple[Device, ...] = ()
    driver: str | None = None
    cuda: str | None = None
    """The newest CUDA that the driver runs."""
    libcuda: bool = True
    links: tuple[tuple[int, int, bool], ...] = ()
    """Pairs of places in `devices`: does NVLink join them. Pairs of which NVML says nothing are
    left out."""
    unreadable: tuple[tuple[int, Trouble], ...] = ()
    """NVML's index, and why."""
    trouble: Trouble | None = None


def read(root: Path = pci.SYS) -> Machine:
    """Ask NVML for everything; a machine that has none, or a broken one, is a value too."""
    loaded = pci.content(root / "module/nvidia/version")
    try:
        import pynvml
    except ImportError:
        return Machine(driver=loaded, trouble=missing_package())
    faults = _faults(pynvml)
    try:
        pynvml.nvmlInit()
    except faults as error:
        return Machine(driver=loaded, trouble=trouble_of(error, loaded))
    try:
        return _machine(pynvml, loaded)
    except faults as error:
        return Machine(driver=loaded, trouble=trouble_of(error, loaded))
    finally:
        _ask(pynvml, "nvmlShutdown")


def _faults(nvml: Any) -> tuple[type[Exception], ...]:
    """NVMLError, and what a damaged library or a foreign module of that name raises."""
    own = getattr(nvml, "NVMLError", OSError)
    # what the binding raises, outside NVMLError's tree, for a call newer than the driver
    newer = getattr(nvml, "NVMLLibraryMismatchError", OSError)
    return (own, newer, AttributeError, OSError, TypeError, ValueError)


def _ask(nvml: Any, name: str, *given: Any, fatal: frozenset[int] | set[int] = frozenset()) -> Any:
    """None for what is not told, by an older driver, a lesser card or to a lesser user."""
    try:
        return getattr(nvml, name)(*given)
    except _faults(nvml) as error:
        if getattr(error, "value", None) in fatal:
            raise
        return None


def _machine(nvml: Any, loaded: str | None) -> Machine:
    faults = _faults(nvml)
    driver = _ask(nvml, "nvmlSystemGetDriverVersion") or loaded
    handles, devices, unreadable = [], [], []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            device = _Reader(nvml, handle).card(index)
        except faults as error:
            unreadable.append((index, trouble_of(error, driver)))
            continue
        handles.append(handle)
        devices.append(device)
    cuda, libcuda = _cuda(nvml)
    return Machine(
        tuple(devices), driver, cuda, libcuda,
        tuple(_links(nvml, handles)), tuple(unreadable),
    )  # fmt: skip


def _cuda(nvml: Any) -> tuple[str | None, bool]:
    """12040 is 12.4. NVML asks libcuda, which a container may lack though it has NVML."""
    version = None
    try:
        version = nvml.nvmlSystemGetCudaDriverVersion_v2()
    except _faults(nvml) as error:
        if getattr(error, "value", None) == LIBRARY_NOT_FOUND:
            return None, False
        if getattr(error, "value", None) == FUNCTION_NOT_FOUND:
            version = _ask(nvml, "nvmlSystemGetCudaDriverVersion")
    return (f"{version // 1000}.{version % 1000 // 10}" if version else None), True


def _links(nvml: Any, handles: list[Any]) -> Iterator[tuple[int, int, bool]]:
    """As vLLM asks it: the state of the NVLink path between two cards, a switch included."""
    for one, two in itertools.combinations(range(len(handles)), 2):
        pair = handles[one], handles[two], NVLINK_CAPABILITY
        state = _ask(nvml, "nvmlDeviceGetP2PStatus", *pair)
        if state is not None:
            yield one, two, state == P2P_OK


class _Reader:
    """One card's handle, and what can be asked of it."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self.nvml = nvml
        self.handle = handle

    def ask(self, name: str, *given: Any) -> Any:
        return _ask(self.nvml, name, self.handle, *given, fatal=FATAL)

    def card(self, index: int) -> Device:
        """The name and the UUID must be told; all else may be unknown."""
        name = str(self.nvml.nvmlDeviceGetName(self.handle))
        uuid = str(self.nvml.nvmlDeviceGetUUID(self.handle))
        told = self.ask("nvmlDeviceGetCudaComputeCapability")
        capability = (int(told[0]), int(told[1])) if told else None
        mode = self.ask("nvmlDeviceGetMigMode")
        in_mig = bool(mode and mode[0] == 1)
        unified = capability in INTEGRATED
        total, free, reserved = _system_memory() if unified else self.memory()
        processes, held = self.processes()
        return Device(
            index, name, uuid, capability, total, free, reserved, unified, processes, held,
            in_mig, tuple(self.slices(uuid, capability)) if in_mig else (),
        )  # fmt: skip

    def slices(self, card: str, capability: tuple[int, int] | None) -> Iterator[Device]:
        for index in range(self.ask("nvmlDeviceGetMaxMigDeviceCount") or 0):
            handle = self.ask("nvmlDeviceGetMigDeviceHandleByIndex", index)
            if handle is None:
                continue  # a place that nobody has filled
            part = _Reader(self.nvml, handle)
            uuid = str(part.ask("nvmlDeviceGetUUID") or "")
            ids = part.ask("nvmlDeviceGetGpuInstanceId"), part.ask("nvmlDeviceGetComputeInstanceId")
            total, free, reserved = part.memory()
            if total is None and (told := part.ask("nvmlDeviceGetAttributes")):
                total = told.memorySizeMB << 20
            processes, held = part.processes()
            yield Device(
                index, str(part.ask("nvmlDeviceGetName") or ""), uuid, capability,
                total, free, reserved, processes=processes, held=held,
                mig_ids=(uuid, f"MIG-{card}/{ids[0]}/{ids[1]}"),
            )  # fmt: skip

    def memory(self) -> tuple[int | None, int | None, int | None]:
        """Total, free and reserved; only the second version of the call tells the last."""
        second = getattr(self.nvml, "nvmlMemory_v2", None)
        found = self.ask("nvmlDeviceGetMemoryInfo", second) if second else None
        if found is None:
            found = self.ask("nvmlDeviceGetMemoryInfo")
        if found is None or not found.total:
            return None, None, None
        reserved = getattr(found, "reserved", None)
        return int(found.total), int(found.free), None if reserved is None else int(reserved)

    def processes(self) -> tuple[int | None, int | None]:
        """How many hold memory, and how much; a container may see none of its neighbours."""
        lists = [
            found for kind in ("Compute", "Graphics") if (found := self.running(kind)) is not None
        ]
        if not lists:
            return None, None
        # a program that both computes and draws is in both lists
        held = {process.pid: process.usedGpuMemory for found in lists for process in found}
        told = [int(size) for size in held.values() if size is not None]
        return len(held), sum(told) if told or not held else None

    def running(self, kind: str) -> Any:
        """Drivers before R510 have the second version of this call only."""
        name = f"nvmlDeviceGet{kind}RunningProcesses"
        found = self.ask(name)
        return self.ask(f"{name}_v2") if found is None else found


def _system_memory() -> tuple[int, int, None]:
    import psutil

    memory = psutil.virtual_memory()
    return int(memory.total), int(memory.available), None
