"""Takes up a new release of an engine, and says what it breaks.

    python tools/engine_release.py vllm 0.34.0

Reads the flags of the release from its own parser into registry/engines/flags, shows the difference
to the release before it, and renders every plan of the registry for it. Ends with 1 if a plan or a
spelling no longer holds. registry/engines/*.yaml is left to a person: the line to add is printed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
from engine_env import EngineEnv, environment
from flag_difference import difference, faults, is_known, uses
from packaging.metadata import Metadata
from packaging.version import Version
from pins import pins

from dflash_deploy.errors import DFlashError
from dflash_deploy.flag_tables import FlagTable, tables
from dflash_deploy.hardware import Hardware, parse
from dflash_deploy.plan import make_plan
from dflash_deploy.reach import is_version
from dflash_deploy.registry import Registry, load
from dflash_deploy.request import Request
from dflash_deploy.resources import registry_root
from dflash_deploy.schema import EngineName, KvDtype

MARKS = {"added": "+", "removed": "-", "renamed": "~", "changed": "*"}
ASKED: tuple[tuple[int | None, KvDtype], ...] = ((None, "auto"), (1, "auto"), (256, "fp8"))
"""Concurrency and KV dtype: what changes which flags a plan has."""


def read(made: EngineEnv, engine: str, version: str) -> bytes:
    """The release's table, from its own parser."""
    reader = Path(__file__).with_name("read_flags.py")
    done = subprocess.run(
        [made.python, reader, engine, version],
        env={**os.environ, **made.env}, capture_output=True, check=False,
    )  # fmt: skip
    if done.returncode:
        last = done.stderr.decode(errors="replace").splitlines()[-5:]
        raise RuntimeError(f"{engine} {version}: its parser cannot be read:\n" + "\n".join(last))
    return done.stdout


def before(engine: str, version: Version) -> FlagTable | None:
    """The newest table older than a release."""
    older = [table for table in tables(engine) if Version(table.version) < version]
    return older[-1] if older else None


def report(registry: Registry, name: EngineName, old: FlagTable, new: FlagTable) -> Iterator[str]:
    """The difference, a line a flag; what the registry speaks of is marked, and harmless
    further spellings come together at the end."""
    of_old, of_new = (uses(registry, name, Version(table.version)) for table in (old, new))
    changes = difference(old, new)
    counts = (f"{sum(c.kind == kind for c in changes)} {kind}" for kind in MARKS)
    yield f"{name} {new.version} beside {old.version}: {', '.join(counts)}"
    further = sorted(change.detail for change in changes if change.kind == "respelled")
    for change in changes:
        if change.kind == "respelled":
            continue
        used = sorted({*of_old.get(change.flag, ()), *of_new.get(change.flag, ())})
        mark = f"   <- registry: {', '.join(used)}" if used else ""
        yield f"{MARKS[change.kind]} {change.flag} {change.detail}".rstrip() + mark
    if further:
        yield f"= further spellings of old flags: {' '.join(further)}"


def broken_spellings(
    registry: Registry, name: EngineName, old: FlagTable | None, new: FlagTable
) -> Iterator[str]:
    """What the registry says for this release, and the release does not know.

    A rule or the allow-list may speak of a flag that other releases have; that one is broken where
    the flag has just gone.
    """
    known, just_now = new.names(), old.names() if old else {}
    for flag, used in sorted(uses(registry, name, Version(new.version)).items()):
        said = any(use.startswith(("setting", "recipe")) for use in used)
        if not is_known(flag, known) and (said or flag in just_now):
            yield f"{flag} is unknown: {', '.join(used)}"


def broken_plans(registry: Registry, name: EngineName, table: FlagTable) -> Iterator[str]:
    """Every plan for the release that its parser would refuse. A refusal of ours is no break."""
    seen: set[tuple[str, str]] = set()
    for asked, hardware in questions(registry, name, table.version):
        try:
            plan = make_plan(registry, asked, hardware)
        except DFlashError:
            continue
        program = len(registry.engines[name].executable.split()) + 1  # `vllm serve`
        for fault in faults(table, plan.argv[program:]):
            if (plan.model, fault) not in seen:
                seen.add((plan.model, fault))
                yield f"{plan.model} on {hardware}: {fault}"


def questions(
    registry: Registry, name: EngineName, version: str
) -> Iterator[tuple[Request, Hardware]]:
    """Each draft of each entry, on eight of the first card of each architecture."""
    cards = {gpu.architecture: gpu.id for gpu in reversed(registry.gpus)}
    for entry in registry.entries.values():
        for draft in entry.model.drafts:
            for card in cards.values():
                for concurrency, kv_dtype in ASKED:
                    request = Request(
                        model=draft.id, engine=name, engine_version=version,
                        trust_remote_code=True, concurrency=concurrency, kv_dtype=kv_dtype,
                        engine_args=pins(registry, entry, draft, name, version),
                    )  # fmt: skip
                    yield request, parse(f"{card}:8", registry.gpus)


def release_line(metadata: bytes, version: str) -> str:
    """The line of `releases:`, from what the wheel requires."""
    read_from = Metadata.from_email(metadata, validate=False)
    required = {item.name: str(item.specifier) for item in read_from.requires_dist or ()}
    torch = required.get("torch", "").removeprefix("==")
    words = [f'version: "{version}"', *([f'torch: "{torch}"'] if torch else [])]
    if read_from.requires_python:
        lowest = next((s for s in read_from.requires_python if s.operator == ">="), None)
        words += [f'python: "{lowest}"'] if lowest else []
    return f"  - {{{', '.join(words)}}}"


def main(name: EngineName, version: str) -> int:
    made = environment(name, version)
    written = read(made, name, version)
    table = msgspec.json.decode(written, type=FlagTable)
    old, registry = before(name, Version(version)), load(user=False)
    path = registry_root() / "engines" / "flags" / f"{name}-{Version(version)}.json"
    path.write_bytes(written)
    print(f"{path}: {len(table.flags)} flags\n")
    if old:
        print("\n".join(report(registry, name, old, table)), end="\n\n")
    broken = [*broken_spellings(registry, name, old, table), *broken_plans(registry, name, table)]
    print("\n".join(["broken:", *broken]) if broken else "every spelling and every plan holds")
    if all(release.version != version for release in registry.engines[name].releases):
        (metadata,) = made.sources.glob("*.dist-info/METADATA")
        print(f"\nregistry/engines/{name}.yaml, releases:")
        print(release_line(metadata.read_bytes(), version))
    return 1 if broken else 0


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("vllm", "sglang"):
        print("usage: engine_release.py vllm|sglang VERSION", file=sys.stderr)
        sys.exit(2)
    if not is_version(sys.argv[2]):
        print(f"`{sys.argv[2]}` is no version, as 0.34.0 is", file=sys.stderr)
        sys.exit(2)
    try:
        sys.exit(main(sys.argv[1], sys.argv[2]))  # type: ignore[arg-type]
    except RuntimeError as error:  # pip or the engine's parser, in their own words
        sys.exit(f"error: {error}")
