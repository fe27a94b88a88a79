"""A plan inside a container: what docker, compose and Kubernetes alike have to say. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, replace

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from dflash_deploy.engine_schema import Engine, Image
from dflash_deploy.errors import Unsupported, UsageError
from dflash_deploy.plan import Plan, Secret
from dflash_deploy.service import cards, known_by, service_name, start_seconds

EVERYWHERE = "0.0.0.0"  # noqa: S104 - inside a container; the published port decides who gets in
HUB = "/cache/huggingface"
HOME = "/cache/engine"
"""Everything an engine compiles lands below it, so that a restart finds it again."""
ENVIRONMENT = {
    "HOME": HOME,
    "HF_HOME": HUB,
    # torch's default lies in /tmp, which goes with the container
    "TORCHINDUCTOR_CACHE_DIR": f"{HOME}/.cache/torchinductor",
    # torch asks for the user's name, and a bare --user has none
    "USER": "dflash",
}
HUB_TOKEN = "HF_TOKEN"  # noqa: S105 - a name
SCRATCH = ("/tmp", "exec,mode=1777")  # noqa: S108 - the container's own
"""Where a container with a read-only root may write beside its caches; code is loaded from it."""
PROBE_TIMEOUT = 25
"""Seconds: SGLang generates a token for its health check."""


@dataclass(frozen=True)
class Container:
    """A container that serves a plan. Secrets are names: nothing here holds a value."""

    name: str
    image: str
    argv: tuple[str, ...]
    """All of it: the image's own entry point is replaced, for each engine has another."""
    env: dict[str, str]
    secrets: tuple[Secret, ...]
    gpus: int
    devices: tuple[str, ...]
    """The cards by id, where they were found on this machine; empty: any `gpus` of them."""
    weights: tuple[str, ...]
    """Folders of this machine, mounted where they are."""
    address: str
    """Where the port is published."""
    port: int
    health_path: str
    start_seconds: int
    labels: dict[str, str]
    compiled: str
    """The folder below the user's cache that is mounted as the engine's home."""

    @property
    def here(self) -> Container:
        """As one of several on this machine, where the port tells them apart."""
        return replace(self, name=f"{self.name}-{self.port}")

    def check_elsewhere(self) -> None:
        """Raises Unsupported for weights that lie on this machine alone."""
        if self.weights:
            raise Unsupported(
                f"{self.weights[0]} is a folder of this machine, and a cluster does not see it",
                hint="--format docker, or weights that a hub has",
            )

    @property
    def health(self) -> tuple[str, ...]:
        """A check with what every image has; it asks from inside."""
        url = f"http://127.0.0.1:{self.port}{self.health_path}"
        asked = f'urllib.request.urlopen("{url}", timeout={PROBE_TIMEOUT - 5})'
        return ("python3", "-c", f"import urllib.request; {asked}")


def check_carried(plan: Plan) -> None:
    """Whether a plan can leave this machine's own environments. Raises Unsupported."""
    if plan.engine == "transformers":
        raise Unsupported(
            "the embedded engine is this program's own: there is no image or environment of it",
            hint=f"--engine vllm, or dflash serve {plan.served_names[-1]}",
        )
    for secret in plan.secrets:
        if not secret.env:
            # never written down as a server that asks for no key
            raise Unsupported(
                "SGLang takes its API key in argv or a file alone: no container holds it",
                hint=f"env -u {secret.taken_from} dflash ..., and a proxy that asks for it",
            )


def container(plan: Plan, engine: Engine) -> Container:
    """Raises Unsupported where the engine has no image for this release or driver."""
    return Container(
        name=service_name(plan),
        image=image_for(plan, engine),
        argv=inside(plan.argv),
        env={**plan.env, **ENVIRONMENT},
        secrets=plan.secrets,
        gpus=cards(plan),
        devices=devices(plan),
        weights=tuple(ref.path for ref in (plan.target, plan.draft) if ref.path),
        address=published(plan.host),
        port=plan.port,
        health_path=plan.health_path,
        start_seconds=start_seconds(plan),
        labels=known_by(plan),
        compiled=f"dflash/{plan.engine}-{plan.version}",
    )


def inside(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The same command, but that it listens where a published port finds it."""
    at = argv.index("--host") + 1
    return (*argv[:at], EVERYWHERE, *argv[at + 1 :])


def image_for(plan: Plan, engine: Engine) -> str:
    """The engine's own image for its release, and for the CUDA that the driver runs."""
    version = Version(plan.version)
    built = [image for image in engine.images if _of(image, version)]
    if not built or version.is_devrelease:
        raise Unsupported(
            f"no container image of {engine.distribution} {plan.version} is known",
            hint=f"--engine-version {engine.releases[-1].version}",
        )
    runs = plan.hardware.cuda
    chosen = next((image for image in built if _runs(image, runs)), None)
    if chosen is None:
        raise Unsupported(
            f"this driver runs CUDA {runs}, and {engine.distribution} {plan.version}'s images"
            f" need {built[0].cuda}",
            hint="a newer driver, or an older --engine-version",
        )
    return pinned(chosen, version)


def pinned(image: Image, version: Version) -> str:
    """Its tag, and the digest of it where that is known: what is pulled is then what was seen."""
    digests = [pin.digest for pin in image.pins if Version(pin.version) == version]
    return "@".join([image.reference.format(version=version.public), *digests[:1]])


def _of(image: Image, version: Version) -> bool:
    return SpecifierSet(image.versions or "").contains(version, prereleases=True)


def _runs(image: Image, driver: str | None) -> bool:
    """A driver runs every CUDA of its own major version, and all before it."""
    if driver is None or image.cuda is None:
        return True
    return Version(image.cuda).major <= Version(driver).major


def devices(plan: Plan) -> tuple[str, ...]:
    """The ids of the first cards, as an engine outside a container would take them."""
    ids = tuple(card.uuid for card in plan.hardware.cards[: cards(plan)] if card.uuid)
    return ids if len(ids) == cards(plan) else ()


def published(host: str) -> str:
    """The address as a port mapping takes it. Raises UsageError for a name."""
    address = {"localhost": "127.0.0.1"}.get(host, host)
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        raise UsageError(
            f"a container's port is published at an address, and {host} is a name",
            hint="--host 0.0.0.0",
        ) from None
    return f"[{parsed}]" if parsed.version == 6 else str(parsed)


def folders(box: Container) -> Iterator[tuple[str, str]]:
    """The caches: outside, in words that a shell and compose both read, and inside."""
    yield "${HF_HOME:-${HOME}/.cache/huggingface}", HUB
    yield f"${{XDG_CACHE_HOME:-${{HOME}}/.cache}}/{box.compiled}", HOME
