"""What somebody wanted: the request that a command makes, with that person's own values. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from dflash_deploy import json_options
from dflash_deploy.engine_args import OWN_OPTIONS
from dflash_deploy.explain import speculation
from dflash_deploy.explain.code import RUNS_CODE
from dflash_deploy.explain.docker_right import own_options
from dflash_deploy.explain.folders import is_snapshot
from dflash_deploy.explain.renamed import given_today
from dflash_deploy.explain.ruled import left_out
from dflash_deploy.explain.secret import is_secret_option, is_secret_variable, may_be_repeated
from dflash_deploy.explain.serving import Serving
from dflash_deploy.explain.variables import needs_shell
from dflash_deploy.flag_faults import fault
from dflash_deploy.flag_tables import Given
from dflash_deploy.json_options import SPECULATION
from dflash_deploy.request import Request
from dflash_deploy.secret_keys import secret_key
from dflash_deploy.situation import flag_for

API_KEY_ENV = "DFLASH_API_KEY"
_PLANNED = frozenset(
    {"served_names", "host", "port", "revision", "speculation", "tensor_parallel", "context",
     "concurrency", "batched_tokens", "attention_backend",
     "template_defaults", "reasoning_parser", "auto_tool_choice", "tool_parser", "remote_code",
     "model", "algorithm", "draft", "draft_revision", "block_size", "draft_attention_backend",
     "graph_batch", "metrics", "config_file"}
)  # fmt: skip
"""Settings that every plan decides."""
_OTHERWISE_SAID = frozenset(
    {"--model", "--trust-remote-code", "--config", "--speculative-dflash-block-size",
     "--speculative-eagle-topk", "--speculative-num-steps", "--spec-method", "--spec-model",
     "--spec-tokens"}
)  # fmt: skip
"""What a plan says in its own way, or need not say."""


def request_of(serving: Serving, without: frozenset[str] = frozenset()) -> Request:
    """All that was said and can be kept, but for the settings to do without."""
    entry, draft = serving.entry, serving.draft
    refused = left_out(serving) | without

    def number(setting: str) -> int | None:
        return None if setting in refused else serving.number(setting)

    port = serving.published.outside if serving.published else serving.number("port")
    return Request(
        model=draft.id if draft else entry.id if entry else serving.target or "",
        engine=serving.name,
        engine_version=str(serving.version),
        host=_host(serving),
        port=port if port and port < 1 << 16 else None,
        block_size=_block(serving),
        concurrency=number("concurrency"),
        context=number("context"),
        tensor_parallel=number("tensor_parallel"),
        kv_dtype="auto" if "kv_dtype" in refused else serving.kv_dtype,
        target_path=_target_path(serving),
        draft_path=_draft_path(serving),
        trust_remote_code=bool(entry and entry.target.remote_code == "required"),
        api_key_env=API_KEY_ENV if _asks_for_key(serving) else None,
        engine_args=tuple(word for given in _kept(serving, refused) for word in given),
    )


def _target_path(serving: Serving) -> str | None:
    """Its folder, but for a snapshot of the hub's cache that is in another place then."""
    folder, entry = serving.target_path, serving.entry
    if folder and not may_be_repeated(folder):
        return None
    if folder and entry and is_snapshot(folder, entry.id) and _is_lost(folder, serving):
        return None
    return folder


def _draft_path(serving: Serving) -> str | None:
    folder = serving.draft_path
    return None if folder and _is_lost(folder, serving) else folder


def _is_lost(folder: str, serving: Serving) -> bool:
    """Whether this container alone has a folder: no mount that the right command keeps does."""
    box = serving.command.container
    if box is None:
        return False
    kept = {*own_options(box)}
    holding = [mount.option in kept for mount in box.mounts if mount.holds(folder)]
    return not folder.startswith("/") or (bool(holding) and not any(holding))


def _host(serving: Serving) -> str:
    """Inside a container every address is meant, and outside the published port decides."""
    box = serving.command.container
    if box is not None and not box.shares_network:
        address = serving.published.address if serving.published else None
        return (address or "127.0.0.1").strip("[]")
    said = serving.settings.get("host", ())
    return said[0].strip("[]") if said and may_be_repeated(said[0]) else "127.0.0.1"


def _block(serving: Serving) -> int | None:
    """The block that was said, if the draft can do it."""
    said, trained = serving.said_block, serving.draft.block_size if serving.draft else None
    return said if said and trained and 2 <= said <= trained else None


def _asks_for_key(serving: Serving) -> bool:
    """SGLang's, in argv or a file, is in no container that we write."""
    box = serving.command.container
    if box is not None and serving.name == "sglang":
        return False
    in_argv = any(given.flag == "--api-key" for given in serving.given)
    by_name = box.by_name if box else frozenset()
    return in_argv or "VLLM_API_KEY" in serving.command.env.keys() | by_name


def _kept(serving: Serving, refused: frozenset[str]) -> Iterator[tuple[str, ...]]:
    """Options of the user's own that no plan decides, if this release knows them."""
    for said in serving.final:
        given = said if said.known else given_today(said, serving)
        if given is None or given.flag is None or given.flag in _OTHERWISE_SAID | RUNS_CODE:
            continue
        if given.flag in OWN_OPTIONS or _is_checkpoints_own(given):
            continue
        if serving.meaning(given.flag) in _PLANNED | refused:
            continue
        if not is_secret_option(given.flag) and _is_right(given):
            yield _written(given)
    yield from _kept_keys(serving, refused)
    yield from _kept_commits(serving)


def _kept_keys(serving: Serving, refused: frozenset[str]) -> Iterator[tuple[str, ...]]:
    """The user's own keys of vLLM's speculative config, but for those that a plan decides."""
    for given in serving.given:
        for key, value in speculation.keys(given).items():
            option, word = f"{SPECULATION}.{key}", json_options.text(value)
            if key in speculation.PLANNED or serving.meaning(option) in refused:
                continue
            if given.knows(option) and may_be_repeated(word):
                yield option, word


def _kept_commits(serving: Serving) -> Iterator[tuple[str, ...]]:
    """The user's own revisions, where the registry knows none."""
    entry, draft = serving.entry, serving.draft
    known = (
        ("revision", entry and entry.target.weights[0].revision),
        ("draft_revision", serving.draft_path or (draft and draft.revision)),
    )
    for setting, revision in known:
        said = serving.settings.get(setting, ())
        flag = flag_for(serving.engine, setting, serving.version)
        if not revision and flag and said and may_be_repeated(said[0]):
            yield flag, said[0]


def _is_right(given: Given) -> bool:
    words = (given.as_written, *given.words)
    repeated = all(may_be_repeated(word) and not needs_shell(word) for word in words)
    return repeated and fault(given) is None and not secret_key(given)


def _is_checkpoints_own(given: Given) -> bool:
    """bfloat16 is the checkpoints' type, and the engines take it unasked."""
    return given.flag == "--dtype" and {*given.words} <= {"auto", "bfloat16"}


def _written(given: Given) -> tuple[str, ...]:
    """In full, but for a dotted option, which is as it was."""
    option = given.as_written.partition("=")[0]
    return (option if "." in option else given.flag or option, *given.words)


def variables(serving: Serving) -> Iterator[tuple[str, str]]:
    """The user's own, but for secrets, dead switches and folders of a container."""
    for name, value in serving.command.env.items():
        dropped = is_secret_variable(name) or name in serving.dead_switches
        dropped |= needs_shell(value) or not may_be_repeated(value)
        if not dropped and not serving.is_inside(value):
            yield name, value
