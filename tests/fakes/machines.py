"""Machines for the fake NVML.

Names, totals, drivers and what is not told are as `nvidia-smi` and bug reports show them for such
machines; UUIDs and what is in use are made up.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

MIB = 2**20
NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, DRIVER_NOT_LOADED = 3, 4, 6, 9
LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND, GPU_IS_LOST, MISMATCH, UNKNOWN = 12, 13, 15, 18, 999


@dataclass(frozen=True)
class FakeSlice:
    """One slice of a card in MIG mode."""

    uuid: str
    profile: str
    instance: int
    total: int
    place: int
    used: int = 0
    processes: tuple[tuple[int, int | None], ...] = ()
    fails: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class FakeCard:
    """Sizes in MiB; `fails` names the calls on this card that answer with an error code."""

    name: str
    capability: tuple[int, int]
    uuid: str
    total: int
    reserved: int = 0
    used: int = 0
    slices: tuple[FakeSlice, ...] | None = None
    """None: not in MIG mode."""
    mig_capable: bool = False
    computing: tuple[tuple[int, int | None], ...] = ()
    drawing: tuple[tuple[int, int | None], ...] = ()
    fails: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class FakeMachine:
    """`fails` holds for the whole machine; `*` is every call."""

    cards: tuple[FakeCard, ...] = ()
    driver: str = "580.95.05"
    cuda: int = 13000
    nvlink: bool | tuple[tuple[int, int], ...] = False
    """Of every pair of cards, or which pairs are bridged."""
    fails: dict[str, int] = field(default_factory=dict)
    lacks: tuple[str, ...] = ()
    """Functions that the driver's library does not have."""


def uuid(number: int) -> str:
    return f"GPU-{number:08x}-1111-2222-3333-4444{number:08x}"


H100 = FakeCard("NVIDIA H100 80GB HBM3", (9, 0), uuid(0xA0), 81559, 551, 4, mig_capable=True)
RTX_3090 = FakeCard("NVIDIA GeForce RTX 3090", (8, 6), uuid(0xB0), 24576, 309, 15)
RTX_4090 = FakeCard(
    "NVIDIA GeForce RTX 4090", (8, 9), uuid(0xC0), 24564, 405, 1200,
    computing=((4242, 700),), drawing=((1001, 300), (4242, 700)),
)  # fmt: skip
SLICES = (
    FakeSlice("MIG-5a1e0001-aaaa-5bbb-8ccc-000000000001", "3g.40gb", 2, 40448, 0, 63),
    FakeSlice("MIG-5a1e0002-aaaa-5bbb-8ccc-000000000002", "2g.20gb", 3, 20096, 1, 37, ((77, 12),)),
    FakeSlice("MIG-5a1e0003-aaaa-5bbb-8ccc-000000000003", "1g.10gb", 9, 9984, 3, 15),
)
# the whole card's memory needs a permission that few have in MIG mode
SLICED = replace(H100, slices=SLICES, fails={"nvmlDeviceGetMemoryInfo": NO_PERMISSION})
GB10 = FakeCard(
    "NVIDIA GB10", (12, 1), uuid(0xD0), 0, drawing=((2049, 18),),
    fails={"nvmlDeviceGetMemoryInfo": NOT_SUPPORTED},
)  # fmt: skip


def several(card: FakeCard, count: int) -> tuple[FakeCard, ...]:
    return tuple(replace(card, uuid=uuid(0x1000 * (n + 1))) for n in range(count))


MACHINES = {
    "none": FakeMachine(),
    "h100": FakeMachine((H100,)),
    "8xh100": FakeMachine(several(H100, 8), nvlink=True),
    "h200": FakeMachine(
        (FakeCard("NVIDIA H200", (9, 0), uuid(0xA1), 143771, 607, mig_capable=True),)
    ),
    "b200": FakeMachine(
        (FakeCard("NVIDIA B200", (10, 0), uuid(0xA2), 183359, 725, mig_capable=True),)
    ),
    "rtx3090": FakeMachine((RTX_3090,)),
    "rtx4090": FakeMachine((RTX_4090,)),
    "rtx5090": FakeMachine(
        (FakeCard("NVIDIA GeForce RTX 5090", (12, 0), uuid(0xA3), 32607, 505, 492),),
        driver="595.71.05",
        cuda=13020,
    ),
    "2xrtx3090": FakeMachine(several(RTX_3090, 2)),
    "4xrtx3090": FakeMachine(several(RTX_3090, 4), nvlink=((0, 1), (2, 3))),
    "mixed": FakeMachine((RTX_4090, H100)),
    "mig": FakeMachine((SLICED,)),
    "mig-and-whole": FakeMachine((replace(H100, uuid=uuid(0xA9)), SLICED)),
    "mig-empty": FakeMachine((replace(SLICED, slices=()),)),
    "gb10": FakeMachine((GB10,), driver="580.126.09"),
    "unheard-of": FakeMachine((FakeCard("NVIDIA X900", (10, 3), uuid(0xA4), 300000),)),
    "lost": FakeMachine(
        (
            replace(H100, uuid=uuid(1)),
            replace(H100, uuid=uuid(2), fails={"nvmlDeviceGetMemoryInfo": GPU_IS_LOST}),
        )
    ),
    "lent": FakeMachine(
        (
            replace(H100, uuid=uuid(1), fails={"nvmlDeviceGetHandleByIndex": NO_PERMISSION}),
            replace(H100, uuid=uuid(2)),
        )
    ),
    # an R470 driver: works, runs CUDA 11.4, and lists processes by the older call only
    "driver-cuda11": FakeMachine(
        (replace(RTX_3090, computing=((5, 100),)),),
        driver="470.256.02",
        cuda=11040,
        lacks=("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetMemoryInfo_v2"),
    ),
    "driver-cuda12": FakeMachine((H100,), driver="535.183.01", cuda=12020),
    "driver-too-old": FakeMachine((RTX_3090,), driver="390.157", lacks=("nvmlInitWithFlags",)),
    "driver-not-loaded": FakeMachine(fails={"nvmlInit": DRIVER_NOT_LOADED}),
    "driver-updated": FakeMachine(fails={"nvmlInit": MISMATCH}),
    "no-permission": FakeMachine(fails={"nvmlInit": NO_PERMISSION}),
    "no-library": FakeMachine(fails={"nvmlInit": LIBRARY_NOT_FOUND}),
    "no-libcuda": FakeMachine(
        (H100,), fails={"nvmlSystemGetCudaDriverVersion_v2": LIBRARY_NOT_FOUND}
    ),
    "broken": FakeMachine((H100,), fails={"*": UNKNOWN}),
    "broken-later": FakeMachine((H100,), fails={"nvmlDeviceGetCount": UNKNOWN}),
    "broken-cards": FakeMachine((H100,), fails={"nvmlDeviceGetName": UNKNOWN}),
    # a card of which NVML tells the name, the UUID and nothing else
    "silent": FakeMachine(
        (H100,),
        fails=dict.fromkeys(
            (
                "nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion_v2",
                "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetCudaComputeCapability",
                "nvmlDeviceGetMigMode", "nvmlDeviceGetComputeRunningProcesses",
                "nvmlDeviceGetComputeRunningProcesses_v2",
                "nvmlDeviceGetGraphicsRunningProcesses",
                "nvmlDeviceGetGraphicsRunningProcesses_v2",
            ),
            NOT_SUPPORTED,
        ),
    ),
}  # fmt: skip
