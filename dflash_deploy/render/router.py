"""The router before several replicas: an existing one, told where they are."""

from __future__ import annotations

from functools import cache

import msgspec
import yaml

from dflash_deploy.resources import registry_root

EVERYWHERE = "0.0.0.0"  # noqa: S104 - inside a container; the published port decides who gets in


class RouterFlags(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How it spells what it is told."""

    host: str
    port: str
    workers: str
    policy: str
    patience: str
    health: str
    metrics: str
    metrics_host: str


class Router(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    version: str
    image: str
    command: list[str]
    flags: RouterFlags
    policy: str
    ready_path: str
    """Answers 200 once a server can take requests; `/health` does before any can."""
    metrics_port: int
    source: str

    @property
    def reference(self) -> str:
        return self.image.format(version=self.version)

    def argv(
        self, urls: tuple[str, ...], port: int, health_path: str, patience: int
    ) -> tuple[str, ...]:
        """Its command for these servers, `patience` seconds for the first of them to be ready."""
        flags = self.flags
        return (
            *self.command,
            *(flags.host, EVERYWHERE, flags.port, str(port)),
            *(flags.workers, *urls),
            *(flags.policy, self.policy),
            *(flags.health, health_path, flags.patience, str(patience)),
            *(flags.metrics_host, EVERYWHERE, flags.metrics, str(self.metrics_port)),
        )


@cache
def router() -> Router:
    """The one that the registry names."""
    path = registry_root() / "router.yaml"
    return msgspec.convert(yaml.safe_load(path.read_text()), Router)
