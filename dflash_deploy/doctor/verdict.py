"""What can be served here, and whether anything stands in the way. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
from packaging.version import Version

from dflash_deploy.doctor import gpu
from dflash_deploy.doctor.docker import Docker
from dflash_deploy.doctor.engines import ON_GPUS, Found, built_for, runs_cuda, serves
from dflash_deploy.doctor.finding import Finding
from dflash_deploy.engine_schema import Engine
from dflash_deploy.hardware import Hardware
from dflash_deploy.launch.endings import NAMES

Way = Literal["vllm", "sglang", "docker", "transformers"]
WORDS: dict[Way, str] = {
    "vllm": NAMES["vllm"], "sglang": NAMES["sglang"], "docker": "the engines' images in Docker",
    "transformers": NAMES["transformers"],
}  # fmt: skip


class Verdict(msgspec.Struct, frozen=True):
    ready: bool
    exit_code: int
    ways: tuple[Way, ...]
    """How a server can be started here, the best first."""
    text: str
    next: str | None
    """The command to type now."""


def ways(
    hardware: Hardware | None,
    found: Sequence[Found],
    docker: Docker | None,
    engines: Mapping[str, Engine],
) -> tuple[Way, ...]:
    """Engines that serve DFlash in their release, on cards that CUDA may use, or on the CPU."""
    good = [each.engine for each in found if serves(each, engines[each.engine], hardware)]
    names: list[Way] = [name for name in ON_GPUS if name in good and gpu.usable(hardware)]
    if docker and docker.nvidia and gpu.usable(hardware) and _image(engines, hardware):
        names.append("docker")
    return (*names, "transformers") if "transformers" in good else tuple(names)


def _image(engines: Mapping[str, Engine], hardware: Hardware | None) -> bool:
    """Whether the driver runs one of the images."""
    runs = hardware.cuda if hardware else None
    built = [image.cuda for name in ON_GPUS for image in engines[name].images]
    newest = [built_for(Version(engines[n].releases[-1].version), engines[n]) for n in ON_GPUS]
    return runs is None or any(runs_cuda(each, runs) for each in (*built, *newest) if each)


def verdict(findings: Sequence[Finding], can: Sequence[Way], hardware: Hardware | None) -> Verdict:
    """Ready if something serves and nothing is a problem; the first problem gives the code."""
    problems = [finding for finding in findings if finding.state == "problem"]
    if problems:
        first = problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        text = f"not ready: {first.text}{more}"
        if first.area in ("gpu", "engines") and "transformers" in can:
            text += f"; what works on the CPU: {gpu.ON_CPU}"
        return Verdict(False, first.exit_code, tuple(can), text, first.remedy)
    best = next(iter(can), None)
    if best is None:  # a probe did not answer in time
        text = "not ready: no engine was found"
        return Verdict(False, Finding("engines", "problem", "").exit_code, (), text, None)
    also = [WORDS[way] for way in can[1:]]
    others = f"; also {' and '.join(also)}" if also else ""
    if best == "transformers":
        text = f"ready for {WORDS[best]} on this CPU: small models"
        return Verdict(True, 0, tuple(can), text, gpu.ON_CPU)
    text = f"ready for {WORDS[best]} on {hardware}{others}"
    # an image takes the plan's command: there is no native engine to start
    then = "dflash plan MODEL" if best == "docker" else f"dflash serve MODEL --engine {best}"
    return Verdict(True, 0, tuple(can), text, f"dflash list, then {then}")
