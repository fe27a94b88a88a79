"""What a release needs before it can be installed: which it is, its Python, its driver. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from dflash_deploy.engine_schema import CudaNeed, Engine, Install
from dflash_deploy.errors import EngineError, Unsupported, UsageError
from dflash_deploy.hardware import Hardware
from dflash_deploy.reach import within
from dflash_deploy.schema import EngineName

_SPEC = re.compile(r"([A-Za-z][\w.-]*)(?:\s*==\s*(\S+))?")


@dataclass(frozen=True)
class Wanted:
    """One release of one engine."""

    name: EngineName
    engine: Engine
    install: Install
    version: str

    @property
    def pin(self) -> str:
        return f"{self.engine.distribution}=={self.version}"

    def __str__(self) -> str:
        return f"{self.engine.distribution} {self.version}"

    @property
    def python(self) -> str:
        """The Pythons it runs on, as a PEP 440 range."""
        known = {release.version: release.python for release in self.engine.releases}
        return ",".join(filter(None, (self.install.python, known.get(self.version))))

    @property
    def constraints(self) -> list[str]:
        release = Version(self.version)
        return [c.requirement for c in self.install.constraints if within(c.versions, release)]

    @property
    def cuda(self) -> CudaNeed | None:
        release = Version(self.version)
        return next((need for need in self.install.cuda if within(need.versions, release)), None)


def split(text: str) -> tuple[str, str | None]:
    """`vllm==0.33.0` and `vllm` are how a release is said here, and nothing else."""
    found = _SPEC.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"`{text}` names no release", hint="vllm==0.33.0, or vllm for the newest")
    return found[1].lower(), found[2]


def wanted(text: str, engines: Mapping[str, Engine]) -> Wanted:
    """The release that `text` names; raises for one that is not known to serve DFlash."""
    name, version = split(text)
    return release(name, version, engines)


def release(name: str, version: str | None, engines: Mapping[str, Engine]) -> Wanted:
    installable = {key: engine for key, engine in engines.items() if engine.install}
    if name == "transformers":
        raise UsageError(
            "the embedded engine needs no environment of its own",
            hint="pip install 'dflash-deploy[local]'",
        )
    if name not in installable:
        raise UsageError(
            f"`{name}` is no engine that can be installed", hint=f"one of {', '.join(installable)}"
        )
    engine = installable[name]
    known = [each.version for each in engine.releases]
    exact = _known(version, engine) if version else known[-1]
    assert engine.install is not None  # noqa: S101 - filtered above
    return Wanted("vllm" if name == "vllm" else "sglang", engine, engine.install, exact)


def _known(text: str, engine: Engine) -> str:
    newest = engine.releases[-1].version
    name = engine.distribution
    hint = f"dflash engine install {name}=={newest}"
    try:
        version = Version(text)
    except InvalidVersion as error:
        raise UsageError(
            f"`{text}` is not a release of {engine.distribution}", hint=hint
        ) from error
    if version < Version(engine.first_release):
        raise EngineError(
            f"{name} {version} has no DFlash: {engine.first_release} is the first to",
            hint=hint,
        )
    for each in engine.releases:
        if Version(each.version) == version:
            return each.version
    raise EngineError(
        f"{name} {version} is not a release that the registry knows",
        hint=hint,
        detail=f"known: {', '.join(each.version for each in engine.releases)}",
    )


def check_driver(this: Wanted, found: Hardware) -> str | None:
    """Raises Unsupported for a driver too old; a line where there is none to be checked."""
    need = this.cuda
    if need is None:
        return None
    if found.driver is None and found.cuda is None:
        return (
            f"no NVIDIA driver here: {this} is built for CUDA {need.cuda}, and needs driver"
            f" {need.driver} or newer where it runs"
        )
    if _runs(need, found):
        return None
    runs = f", which runs CUDA {found.cuda}" if found.cuda else ""
    raise Unsupported(
        f"{this} is built for CUDA {need.cuda} and needs driver {need.driver} or newer;"
        f" this machine has {found.driver or 'an older one'}{runs}",
        hint="update the driver; to install for another machine: --no-driver-check",
        detail=f"source: {need.source}",
    )


def _runs(need: CudaNeed, found: Hardware) -> bool:
    """By CUDA's major version, which a compatibility package raises; else by the driver's."""
    if found.cuda:
        return Version(found.cuda).major >= Version(need.cuda).major
    return Version(found.driver or "0") >= Version(need.driver)
