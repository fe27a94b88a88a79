"""What follows `--`: words of the engine's own, as far as they may be said there. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping

from packaging.version import Version

from dflash_deploy.engine_schema import Engine
from dflash_deploy.errors import UsageError
from dflash_deploy.flag_faults import fault
from dflash_deploy.flag_tables import FlagTable, Given, first_with, flag_table, parse, tables
from dflash_deploy.json_options import SPECULATION, keys
from dflash_deploy.registry import Entry
from dflash_deploy.request import Request
from dflash_deploy.schema import Draft
from dflash_deploy.secret_keys import secret_key
from dflash_deploy.situation import flag_for, meaning_of

SECRETS = {
    "--api-key": "export DFLASH_API_KEY=...", "--admin-api-key": "export DFLASH_API_KEY=...",
    "--hf-token": "export HF_TOKEN=...",
    "--ssl-keyfile-password": "use a key file that only you can read",
}  # fmt: skip
OWN_OPTIONS = {
    "host": "--host",
    "port": "--port",
    "served_names": "the entry's aliases",
    "speculation": "--block-size",
    "--speculative-config.method": "--block-size",
    "--speculative-config.num_speculative_tokens": "--block-size",
    "--speculative-config.model": "an overlay entry with that draft",
    "algorithm": "--block-size",
    "block_size": "--block-size",
    "draft": "an overlay entry with that draft",
    "config_file": "--host, --port and the other options",
    "draft_revision": "an overlay entry with that revision",
    "model": "the MODEL argument",
    "--model": "the MODEL argument",
    "tensor_parallel": "--tensor-parallel",
    "context": "--context",
    "concurrency": "--concurrency",
    "remote_code": "--trust-remote-code, for a target that needs it",
    "nodes": "--nodes",
    "node_rank": "--nodes",
    "head": "--nodes",
    "--uds": "--host and --port",
    "headless": "--nodes",
    "--headless": "--nodes",
    "--grpc-mode": "--host and --port",
    "--disable-log-stats": "the acceptance check, which reads the counters",
    "--spec-method": "--block-size",
    "--spec-model": "an overlay entry with that draft",
    "--spec-tokens": "--block-size",
    "--speculative-dflash-block-size": "--block-size",
}
"""Settings that the rest of the command depends on, and how they are said to it."""


def check_engine_args(
    engines: Mapping[str, Engine], version: Version, request: Request, entry: Entry, draft: Draft
) -> None:
    """What this command decides, or reads back, is said to it and not behind its back.

    Short forms, aliases and dotted options mean what they stand for.
    """
    engine = engines[request.engine]
    table = flag_table(request.engine, version)
    given = parse(table, request.engine_args)
    for item, before in zip(given, (None, *given), strict=False):
        _check_spoken(item, before)
        _check_secret(item, request)
        _check_decided(item, engine, draft)
        if table is not None:
            _check_known(item, engines, version, request, entry, table)
        _check_words(item, engine, given)


def _check_spoken(item: Given, before: Given | None) -> None:
    if item.flag is not None:
        return
    if before is None or before.flag is None:
        raise UsageError(f"`{item.words[0]}` belongs to no option", hint="leave it out")
    raise UsageError(
        f"`{item.words[0]}` belongs to no option: {before.as_written} takes no more",
        hint=shlex.join(["--", *before.raw]),
    )


def _check_secret(item: Given, request: Request) -> None:
    flag = str(item.flag)
    if flag in SECRETS:
        raise UsageError(
            "a key on a command line is there for everybody to see",
            hint=f"{SECRETS[flag]}, without {flag}",
        )
    if name := secret_key(item):
        raise UsageError(
            f"`{name}` of {flag} is a secret, and on a command line for everybody to see",
            hint=_in_a_file(request, name),
        )


def _check_decided(item: Given, engine: Engine, draft: Draft) -> None:
    for option in _options(item):
        setting = meaning_of(engine, option)
        pinned = setting != "draft_revision" or draft.revision
        if pinned and setting in OWN_OPTIONS:
            raise UsageError(
                f"{option} after `--` would contradict the plan",
                hint=f"{OWN_OPTIONS[setting]}, before the `--`",
            )


def _check_known(
    item: Given, engines: Mapping[str, Engine], version: Version, request: Request, entry: Entry,
    table: FlagTable,
) -> None:  # fmt: skip
    engine = engines[request.engine]
    for option in _options(item):
        if item.knows(option) or not _is_settled(table, version, option):
            continue
        likely = f": it may mean {' or '.join(item.candidates)}" if item.candidates else ""
        raise UsageError(
            f"{engine.distribution} {version} has no option {option}{likely}",
            hint=_of_another(option, item.words, engines, request, version)
            or _explained(item, engine, version, entry, option),
        )


def _of_another(
    option: str, words: tuple[str, ...], engines: Mapping[str, Engine], request: Request,
    version: Version,
) -> str | None:  # fmt: skip
    """What another engine calls so is said to this command, or has a name here too."""
    for name, other in engines.items():
        setting = meaning_of(other, option)
        if name == request.engine or setting == option:
            continue
        if setting in OWN_OPTIONS:
            return f"{OWN_OPTIONS[setting]}, before the `--`"
        if here := flag_for(engines[request.engine], setting, version):
            return shlex.join(["--", here, *words])
    return None


def _explained(item: Given, engine: Engine, version: Version, entry: Entry, option: str) -> str:
    if engine.executable == "dflash":
        return f"leave {option} out"
    model = flag_for(engine, "model", version)
    served = [engine.executable, "serve", *([model] if model else []), entry.id, *item.raw]
    return f"dflash explain --engine-version {version} -- {shlex.join(served)}"


def _check_words(item: Given, engine: Engine, given: Iterable[Given]) -> None:
    flag = str(item.flag)
    if meaning_of(engine, flag) == "memory_fraction" and not _is_share("".join(item.words)):
        raise UsageError(
            f"{item.as_written} {' '.join(item.words)}: a share of the card's memory, above 0"
            " and at most 1",
            hint=f"{flag} 0.85",
        )
    plugins = {f"{flag}-plugin", "--tool-parser-plugin"}
    said = {other.flag for other in given}
    wrong = fault(item)
    if wrong and not plugins & said and not _is_unread(flag, engine, said):
        raise UsageError(f"{wrong.said}: {wrong.says}", hint=wrong.hint)


def _is_unread(flag: str, engine: Engine, said: set[str | None]) -> bool:
    """Whether the engine looks at its words only beside another option, which is not there."""
    return any(
        item.ignored and flag in item.flags and not said & {*item.need} for item in engine.needs
    )


def _in_a_file(request: Request, key: str) -> str:
    """The engines read options from a file too, which others need not be able to read."""
    if request.engine == "transformers":
        return f"leave `{key}` out"
    form = f"dflash plan {request.model} --engine {request.engine} --format {request.engine}-config"
    return f"{form}, without `{key}`: a file to add it to, which nobody else may read"


def _is_settled(table: FlagTable, version: Version, option: str) -> bool:
    """Whether what this table lacks is no option: of a release between two tables, if neither has
    it; nobody can say of one beyond the newest.
    """
    newest = Version(tables(table.engine)[-1].version)
    return table.version == str(version) or (
        version < newest and first_with(table.engine, option) is None
    )


def _is_share(word: str) -> bool:
    try:
        return 0 < float(word) <= 1
    except ValueError:
        return False


def _options(item: Given) -> tuple[str, ...]:
    """The option, or each key of its JSON object, where the keys are known."""
    flag = str(item.flag)
    if flag != SPECULATION and not (item.row and item.row.keys):
        return (flag,)
    return tuple(f"{flag}.{key}" for key in keys(item)) or (flag,)
