"""A plan's container, run through the Docker SDK: as `plan --format docker` writes it down."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from dflash_deploy.container import HUB_TOKEN, PROBE_TIMEOUT, SCRATCH, Container, folders
from dflash_deploy.errors import DFlashError, LaunchError
from dflash_deploy.launch.daemon import told
from dflash_deploy.launch.output import Redactor, Sink, Tail, pass_on
from dflash_deploy.launch.ports import check_port
from dflash_deploy.launch.secrets import check_secrets
from dflash_deploy.launch.signs import Signs
from dflash_deploy.plan import Plan
from dflash_deploy.schema import EngineName

if TYPE_CHECKING:
    import docker
    from docker.models.containers import Container as Running

GRACE = 10
"""Seconds an engine gets between SIGTERM and SIGKILL, as outside a container."""
STEP = 0.2
SECOND = 1_000_000_000
FOREVER = {"Name": "unless-stopped"}


class Boxed:
    """A running container. It ends with the block unless it was kept."""

    def __init__(self, engine: EngineName, signs: Signs, hidden: tuple[str, ...]) -> None:
        self.engine = engine
        self.signs = signs
        self.stop_asked = False
        self.phase: str | None = None
        self._tail = Tail(self._notice)
        self._redactor = Redactor([value.encode() for value in hidden])
        self._container: Running | None = None
        self._copying: threading.Thread | None = None
        self._kept = False
        self._looked = 0.0
        self._code: int | None = None

    def run(self, container: Running, output: Sink | None) -> None:
        """Start what was created; its lines go to `output` as they come."""
        self._container = container
        container.start()
        self._copying = threading.Thread(target=self._copy, args=(output,), daemon=True)
        self._copying.start()

    @property
    def tail(self) -> tuple[str, ...]:
        """The last lines of its output."""
        return self._tail.lines

    def poll(self) -> int | None:
        """The exit code, or None while it runs. Raises EngineError if the daemon is gone."""
        if self._code is None and time.monotonic() - self._looked >= STEP:
            self._looked = time.monotonic()
            self._code = self._look()
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; raises subprocess.TimeoutExpired."""
        until = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if until is not None and time.monotonic() > until:
                raise subprocess.TimeoutExpired(self._running.name or "", timeout or 0)
            time.sleep(STEP)
        return code

    def terminate(self) -> None:
        """Ask it to stop; the daemon kills it when the grace period is over."""
        self.stop_asked = True
        # not here: a signal handler waits for nobody
        threading.Thread(target=self._ask, args=("stop",), daemon=True).start()

    def kill(self) -> None:
        self.stop_asked = True
        threading.Thread(target=self._ask, args=("kill",), daemon=True).start()

    def keep(self, policy: Mapping[str, Any]) -> None:
        """From now on the daemon keeps it, and starts it again as `policy` says."""
        with told():
            self._running.update(restart_policy=dict(policy))
        self._kept = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._container is None or self._kept:
            return
        from contextlib import suppress

        with suppress(DFlashError), told():
            if self.poll() is None:
                self._container.stop(timeout=GRACE)
        with suppress(DFlashError), told():
            self._container.remove(force=True)
        if self._copying:
            # in the middle of a line it would abort the interpreter's end
            self._copying.join(timeout=1)

    @property
    def _running(self) -> Running:
        if self._container is None:
            raise RuntimeError("the container was not started")
        return self._container

    def _look(self) -> int | None:
        from docker.errors import NotFound

        try:
            with told():
                try:
                    self._running.reload()
                except NotFound:
                    return 137  # somebody removed it, which kills it first
        except DFlashError:
            if self.stop_asked:
                return 137
            raise
        state = self._running.attrs["State"]
        if state["Status"] not in ("exited", "dead"):
            return None
        if state.get("OOMKilled"):
            self._tail.feed(b"Docker: killed, because the container ran out of memory\n")
        return int(state["ExitCode"])

    def _ask(self, what: str) -> None:
        from contextlib import suppress

        with suppress(DFlashError), told():
            if what == "stop":
                self._running.stop(timeout=GRACE)
            else:
                self._running.kill()

    def _copy(self, output: Sink | None) -> None:
        from contextlib import suppress

        out = output
        with suppress(DFlashError), told():
            for chunk in self._running.logs(stream=True, follow=True):
                out = pass_on(self._redactor.feed(chunk), out, self._tail)
        pass_on(self._redactor.end(), out, self._tail)
        self._tail.end()

    def _notice(self, line: str) -> None:
        self.phase = self.signs.phase_of(line) or self.phase


def box_up(
    client: docker.DockerClient,
    plan: Plan,
    box: Container,
    *,
    signs: Signs,
    output: Sink | None = None,
    environ: Mapping[str, str] = os.environ,
    say: Callable[[str], None] = lambda _: None,
) -> Boxed:
    """Pull the image if it is not there, create the container and start it.

    Raises EngineError, DownloadError, LaunchError and UsageError, each for its own cause.
    """
    check_secrets(plan, environ)
    for outside in mounted(box, environ).values():
        # one that Docker makes is root's
        _make(outside)
    hidden = tuple(environ[secret.taken_from] for secret in plan.secrets)
    server = Boxed(plan.engine, signs, hidden)
    with told(box.image, box.name, box.port):
        replace_ended(client, box.name)
        check_port(plan.host, plan.port)
        pull(client, box.image, say)
        created = client.containers.create(**options(box, environ))
        try:
            server.run(created, output)
        except BaseException:
            created.remove(force=True)
            raise
    return server


def options(box: Container, environ: Mapping[str, str]) -> dict[str, Any]:
    """What the SDK is told: word for word what the printed `docker run` says. Pure."""
    from docker.types import DeviceRequest

    binds = [f"{outside}:{within}" for within, outside in mounted(box, environ).items()]
    binds += [f"{path}:{path}:ro" for path in box.weights]
    cards: dict[str, Any] = (
        {"device_ids": list(box.devices)} if box.devices else {"count": box.gpus}
    )
    requests = [DeviceRequest(**cards, capabilities=[["gpu"]])] if box.gpus else None
    secrets = {secret.env: environ[secret.taken_from] for secret in box.secrets}
    token = {HUB_TOKEN: environ[HUB_TOKEN]} if environ.get(HUB_TOKEN) else {}
    return {
        "image": box.image,
        "name": box.name,
        "entrypoint": [box.argv[0]],
        "command": list(box.argv[1:]),
        "init": True,
        "device_requests": requests,
        "ipc_mode": "host",
        "user": f"{os.getuid()}:{os.getgid()}",
        "security_opt": ["no-new-privileges"],
        "cap_drop": ["ALL"],
        "read_only": True,
        "tmpfs": dict([SCRATCH]),
        "ports": {f"{box.port}/tcp": (box.address.strip("[]"), box.port)},
        "volumes": binds,
        "environment": {**box.env, **token, **secrets},
        "healthcheck": {
            "test": ["CMD-SHELL", shlex.join(box.health)],
            "interval": 30 * SECOND,
            "timeout": PROBE_TIMEOUT * SECOND,
            "retries": 3,
            "start_period": box.start_seconds * SECOND,
        },
        "labels": box.labels,
        "detach": True,
    }


def mounted(box: Container, environ: Mapping[str, str]) -> dict[str, str]:
    """The caches by their place inside: the folders that the printed line's shell would find."""
    return {within: _expanded(outside, environ) for outside, within in folders(box)}


def _expanded(words: str, environ: Mapping[str, str]) -> str:
    """`${NAME}` and `${NAME:-else}`, the innermost first, as a shell reads them."""
    inner = re.compile(r"\$\{(\w+)(?::-([^${}]*))?\}")
    while found := inner.search(words):
        value = environ.get(found[1]) or found[2] or ""
        words = words[: found.start()] + value + words[found.end() :]
    return words


def _make(folder: str) -> None:
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LaunchError(
            f"{folder} cannot be made: {error.strerror}", hint="XDG_CACHE_HOME=/another/folder"
        ) from error


def replace_ended(client: docker.DockerClient, name: str) -> None:
    """Make room for a name: what of ours ended under it goes. Raises LaunchError if it runs."""
    from docker.errors import NotFound

    try:
        found = client.containers.get(name)
    except NotFound:
        return
    if "dflash.model" not in found.labels:
        return  # the daemon says that the name is taken
    if found.status in ("exited", "dead", "created"):
        found.remove(force=True)
        return
    raise LaunchError(f"{name} runs already", hint=f"dflash stop {name}")


def pull(client: docker.DockerClient, image: str, say: Callable[[str], None]) -> None:
    """Fetch an image that is not there, layer by layer, and say how far it is."""
    if _has(client, image):
        return
    name, tag = named(image)
    layers: dict[str, tuple[int, int]] = {}
    for event in client.api.pull(name, tag=tag, stream=True, decode=True):
        if "error" in event:
            raise _as_raised(event["error"])
        seen = event.get("progressDetail") or {}
        if event.get("status") == "Downloading" and seen.get("total"):
            layers[event["id"]] = (seen["current"], seen["total"])
        say(_progress(image, layers))
    say("")


def named(image: str) -> tuple[str, str]:
    """The repository, and the digest or else the tag, as the daemon is asked for them."""
    tagged, _, digest = image.partition("@")
    name, _, tag = tagged.rpartition(":")
    return name, digest or tag


def _has(client: docker.DockerClient, image: str) -> bool:
    from docker.errors import ImageNotFound

    try:
        client.images.get(image)
    except ImageNotFound:
        return False
    return True


def _as_raised(words: str) -> Exception:
    """An error that came in the middle of a stream, as the SDK raises those at its head."""
    from docker.errors import APIError

    error: Exception = APIError(words, explanation=words)
    return error


def _progress(image: str, layers: Mapping[str, tuple[int, int]]) -> str:
    have, want = (sum(pair[i] for pair in layers.values()) / 1e9 for i in (0, 1))
    return f"pulling {image}" + (f": {have:.1f} of {want:.1f} GB" if want else "")
