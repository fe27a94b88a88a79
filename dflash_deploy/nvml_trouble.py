"""Why NVML does not answer, in words, and what mends it."""

from __future__ import annotations

from typing import Literal

import msgspec

Cause = Literal[
    "no-library", "no-package", "not-loaded", "too-old", "mismatch", "no-permission",
    "lost", "broken", "no-slices",
]  # fmt: skip


class Trouble(msgspec.Struct, frozen=True):
    cause: Cause
    message: str
    remedy: str


# Codes of nvml.h; `{driver}` is the version of the loaded kernel module, where there is one.
TOLD: dict[int, Trouble] = {
    4: Trouble(
        "no-permission",
        "the NVIDIA driver refuses this user the cards",
        "give the user /dev/nvidia*, or start the container with --gpus all",
    ),
    9: Trouble(
        "not-loaded", "the NVIDIA driver is installed and not loaded", "sudo modprobe nvidia"
    ),
    12: Trouble(
        "no-library",
        "no NVIDIA driver here: libnvidia-ml.so.1 was not found",
        "install the NVIDIA driver, or start the container with --gpus all",
    ),
    13: Trouble(
        "too-old",
        "the NVIDIA driver{driver} is too old: its NVML lacks a function that is needed",
        "install a newer NVIDIA driver",
    ),
    15: Trouble("lost", "the GPU is lost: it fell off the bus", "reboot; dmesg | grep -i xid"),
    16: Trouble("lost", "the GPU must be reset", "sudo nvidia-smi --gpu-reset, or reboot"),
    17: Trouble(
        "no-permission",
        "the operating system blocks the NVIDIA driver",
        "start the container with --gpus all, or ask the scheduler for a card",
    ),
    18: Trouble(
        "mismatch",
        "the NVIDIA driver was updated while{driver} is still loaded: library and module differ",
        "reboot, or load the new kernel module",
    ),
}
TOLD[25] = TOLD[13]


def trouble_of(error: Exception, driver: str | None) -> Trouble:
    """What NVML's error means; one that nobody foresaw is told as it came."""
    code = getattr(error, "value", None)
    known = TOLD.get(code) if isinstance(code, int) else None
    if known:
        version = f" {driver}" if driver else ""
        if known.cause == "mismatch" and not driver:
            version = " the old one"
        return Trouble(known.cause, known.message.format(driver=version), known.remedy)
    said = " ".join(str(error).split()) or type(error).__name__
    return Trouble("broken", f"NVML is broken: {said}", "nvidia-smi; dmesg | grep -i nvrm")


def missing_package() -> Trouble:
    return Trouble(
        "no-package",
        "the Python package nvidia-ml-py is missing",
        "pip install --force-reinstall nvidia-ml-py",
    )
