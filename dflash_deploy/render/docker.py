"""A plan as `docker run`, for the daemon of this machine, or as `podman run`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Literal

from dflash_deploy.container import HUB_TOKEN, PROBE_TIMEOUT, SCRATCH, Container, folders

Program = Literal["docker", "podman"]
_REGISTRY = "docker.io"


def render(box: Container, further: Sequence[str] = (), program: Program = "docker") -> str:
    """One shell command when pasted: the folders first, else Docker makes them root's.

    `further` are options of Docker's own, quoted as a shell reads them.
    """
    made = "mkdir -p " + " ".join(f'"{outside}"' for outside, _ in folders(box))
    # an empty key would leave the server open to all: the shell stops instead
    keys = "".join(f'{secret.env}="${{{secret.taken_from}:?}}" ' for secret in box.secrets)
    run = " \\\n  ".join(
        [
            f"{keys}{program} run --detach --init",
            *_options(box, program),
            *further,
            *_command(box, program),
        ]
    )
    return f"{made} && \\\n{run}"


def _options(box: Container, program: Program) -> Iterator[str]:
    yield shlex.join(["--name", box.name])
    yield "--restart unless-stopped"
    yield from [shlex.join(["--gpus", _gpus(box)])] if program == "docker" else _of_podman(box)
    yield "--ipc host"
    yield '--user "$(id -u):$(id -g)"'
    yield "--security-opt no-new-privileges --cap-drop ALL"
    yield f"--read-only --tmpfs {':'.join(SCRATCH)}"
    yield shlex.join(["--publish", f"{box.address}:{box.port}:{box.port}"])
    for outside, within in folders(box):
        yield f'--volume "{outside}:{within}"'
    for path in box.weights:
        yield shlex.join(["--volume", f"{path}:{path}:ro"])
    for name, value in box.env.items():
        yield shlex.join(["--env", f"{name}={value}"])
    for name in (HUB_TOKEN, *(secret.env for secret in box.secrets)):
        yield f"--env {name}"
    yield shlex.join(["--health-cmd", shlex.join(box.health)])
    yield f"--health-interval 30s --health-timeout {PROBE_TIMEOUT}s --health-retries 3"
    yield f"--health-start-period {box.start_seconds}s"
    for name, value in box.labels.items():
        yield shlex.join(["--label", f"{name}={value}"])


def _of_podman(box: Container) -> Iterator[str]:
    """Cards by their CDI names, and the caller's own user inside, who owns the folders.

    Source: NVIDIA Container Toolkit's documentation of CDI; podman-run(1), `--userns`.
    """
    for device in box.devices or map(str, range(box.gpus)):
        yield f"--device nvidia.com/gpu={device}"
    yield "--userns keep-id --security-opt label=disable"


def _gpus(box: Container) -> str:
    """Docker reads this as a line of CSV: several ids need quotes of their own."""
    if not box.devices:
        return str(box.gpus)
    ids = "device=" + ",".join(box.devices)
    return f'"{ids}"' if len(box.devices) > 1 else ids


def _command(box: Container, program: Program) -> Iterator[str]:
    """The program, the image, and then a flag a line. Podman asks where a short name is from."""
    short = program == "podman" and "." not in box.image.partition("/")[0]
    line = ["--entrypoint", box.argv[0], f"{_REGISTRY}/{box.image}" if short else box.image]
    for word in box.argv[1:]:
        if word.startswith("--"):
            yield shlex.join(line)
            line = []
        line.append(word)
    yield shlex.join(line)
