"""A fake `pynvml`: the functions the probe calls, playing one of `machines.MACHINES`.

`install(monkeypatch, "h100")` for this process; `PYTHONPATH={nvml_path(tmp_path, "h100")}` for a
child. Names, parameters, codes and error classes are nvidia-ml-py's: `test_nvml.py` compares them.
"""

from __future__ import annotations

import functools
import inspect
import string
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

from tests.fakes.machines import MACHINES, MIB, NOT_FOUND, NOT_SUPPORTED, FakeMachine, FakeSlice

if TYPE_CHECKING:  # a child that plays a machine needs no pytest
    import pytest

ROOT = Path(__file__).resolve().parents[2]
CODES = {
    "UNINITIALIZED": 1, "INVALID_ARGUMENT": 2, "NOT_SUPPORTED": 3, "NO_PERMISSION": 4,
    "NOT_FOUND": 6, "DRIVER_NOT_LOADED": 9, "LIBRARY_NOT_FOUND": 12, "FUNCTION_NOT_FOUND": 13,
    "GPU_IS_LOST": 15, "RESET_REQUIRED": 16, "OPERATING_SYSTEM": 17,
    "LIB_RM_VERSION_MISMATCH": 18, "UNKNOWN": 999,
}  # fmt: skip
# where the binding's unversioned name leads
LATEST = {
    "nvmlInit": "nvmlInitWithFlags",
    "nvmlDeviceGetComputeRunningProcesses": "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses": "nvmlDeviceGetGraphicsRunningProcesses_v3",
}


class NVMLError(Exception):
    """As in the binding: `NVMLError(3)` makes an `NVMLError_NotSupported`."""

    def __new__(cls, value: int) -> Self:
        made = Exception.__new__(ERRORS.get(value, cls))
        made.value = value
        return made

    def __str__(self) -> str:
        return next((name for name, code in CODES.items() if code == self.value), "?")


class NVMLLibraryMismatchError(Exception):
    """What the binding raises instead of FunctionNotFound for its unversioned calls."""


ERRORS: dict[int, type[NVMLError]] = {}
for _name, _code in CODES.items():
    _class = "NVMLError_" + string.capwords(_name, "_").replace("_", "")
    ERRORS[_code] = type(_class, (NVMLError,), {})


class Player:
    """The functions. A handle is the card or the slice itself."""

    def __init__(self, machine: FakeMachine) -> None:
        self.machine = machine
        self.open = 0

    def nvmlInit(self) -> None:
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlSystemGetDriverVersion(self) -> str:
        return self.machine.driver

    def nvmlSystemGetCudaDriverVersion(self) -> int:
        return self.machine.cuda

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return self.machine.cuda

    def nvmlDeviceGetCount(self) -> int:
        return len(self.machine.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:
        card = self.machine.cards[index]
        if "nvmlDeviceGetHandleByIndex" in card.fails:
            raise NVMLError(card.fails["nvmlDeviceGetHandleByIndex"])
        return card

    def nvmlDeviceGetName(self, handle: Any) -> str:
        if isinstance(handle, FakeSlice):
            return f"{self._card(handle).name} MIG {handle.profile}"
        return handle.name

    def nvmlDeviceGetUUID(self, handle: Any) -> str:
        return handle.uuid

    def nvmlDeviceGetCudaComputeCapability(self, handle: Any) -> tuple[int, int]:
        return handle.capability

    def nvmlDeviceGetMemoryInfo(self, handle: Any, version: int | None = None) -> Any:
        if version and "nvmlDeviceGetMemoryInfo_v2" in self.machine.lacks:
            raise NVMLError(CODES["FUNCTION_NOT_FOUND"])
        reserved = getattr(handle, "reserved", 0) * MIB
        total, used = handle.total * MIB, handle.used * MIB
        free = total - used - reserved
        if not version:
            return SimpleNamespace(total=total, free=free, used=used + reserved)
        return SimpleNamespace(total=total, free=free, used=used, reserved=reserved)

    def nvmlDeviceGetMigMode(self, device: Any) -> list[int]:
        if not device.mig_capable:
            raise NVMLError(NOT_SUPPORTED)
        return [int(device.slices is not None)] * 2

    def nvmlDeviceGetMaxMigDeviceCount(self, device: Any) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: Any, index: int) -> FakeSlice:
        for part in device.slices or ():
            if part.place == index:
                return part
        raise NVMLError(NOT_FOUND)

    def nvmlDeviceGetGpuInstanceId(self, device: Any) -> int:
        return device.instance

    def nvmlDeviceGetComputeInstanceId(self, device: Any) -> int:
        return 0

    def nvmlDeviceGetAttributes(self, device: Any) -> Any:
        return SimpleNamespace(memorySizeMB=device.total)

    def nvmlDeviceGetP2PStatus(self, device1: Any, device2: Any, p2pIndex: Any) -> int:  # noqa: N803
        linked = self.machine.nvlink
        if isinstance(linked, tuple):
            cards = self.machine.cards
            linked = (cards.index(device1), cards.index(device2)) in linked
        return 0 if linked else 5

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> list[Any]:
        return self.nvmlDeviceGetComputeRunningProcesses_v2(handle)

    def nvmlDeviceGetComputeRunningProcesses_v2(self, handle: Any) -> list[Any]:
        return _processes(getattr(handle, "computing", None) or getattr(handle, "processes", ()))

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: Any) -> list[Any]:
        return self.nvmlDeviceGetGraphicsRunningProcesses_v2(handle)

    def nvmlDeviceGetGraphicsRunningProcesses_v2(self, handle: Any) -> list[Any]:
        return _processes(getattr(handle, "drawing", ()))

    def _card(self, part: FakeSlice) -> Any:
        return next(card for card in self.machine.cards if part in (card.slices or ()))

    def refuse(self, name: str, given: tuple[Any, ...]) -> None:
        """Raise what this call is recorded to answer with, if anything."""
        fails = self.machine.fails
        of_card = getattr(given[0], "fails", {}) if given else {}
        code = fails.get(name) or fails.get("*") or of_card.get(name)
        if code:
            raise NVMLError(code)
        if LATEST.get(name, name) in self.machine.lacks:
            if name.endswith("RunningProcesses"):
                raise NVMLLibraryMismatchError(name)
            raise NVMLError(CODES["FUNCTION_NOT_FOUND"])
        if name != "nvmlInit" and not self.open:
            raise NVMLError(CODES["UNINITIALIZED"])


def _processes(found: tuple[tuple[int, int | None], ...]) -> list[Any]:
    return [
        SimpleNamespace(pid=pid, usedGpuMemory=None if size is None else size * MIB)
        for pid, size in found
    ]


def _played(player: Player, name: str) -> Any:
    method = getattr(player, name)

    @functools.wraps(method)
    def call(*given: Any, **named: Any) -> Any:
        player.refuse(name, given)
        return method(*given, **named)

    return call


def fill(module: ModuleType, machine: FakeMachine) -> ModuleType:
    """Make `module` look like `pynvml` on this machine; `module.player.open` counts its inits."""
    player = Player(machine)
    for name, _ in inspect.getmembers(player, inspect.ismethod):
        if name.startswith("nvml"):
            setattr(module, name, _played(player, name))
    for name, code in CODES.items():
        setattr(module, f"NVML_ERROR_{name}", code)
        setattr(module, ERRORS[code].__name__, ERRORS[code])
    module.NVMLError = NVMLError
    module.NVMLLibraryMismatchError = NVMLLibraryMismatchError
    module.nvmlMemory_v2 = 0x02000028
    module.player = player
    return module


def install(monkeypatch: pytest.MonkeyPatch, machine: str | FakeMachine) -> ModuleType:
    """Play the machine in this process, with no CUDA_VISIBLE_DEVICES of the user's."""
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)
    played = MACHINES[machine] if isinstance(machine, str) else machine
    module = fill(ModuleType("pynvml"), played)
    monkeypatch.setitem(sys.modules, "pynvml", module)
    return module


def nvml_path(folder: Path, machine: str) -> Path:
    """A folder for a child's PYTHONPATH, whose `pynvml` plays the machine."""
    place = folder / f"nvml-{machine}"
    place.mkdir(parents=True, exist_ok=True)
    (place / "pynvml.py").write_text(
        f"import sys\n\nsys.path.append({str(ROOT)!r})\n"
        "from tests.fakes.machines import MACHINES\nfrom tests.fakes.nvml import fill\n\n"
        f"fill(sys.modules[__name__], MACHINES[{machine!r}])\n"
    )
    return place
