"""What stops a request before there is a plan: each check raises, or says nothing. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from packaging.version import Version

from dflash_deploy.engine_schema import Engine
from dflash_deploy.errors import EngineError, RegistryError, Unsupported, UsageError
from dflash_deploy.flag_faults import fault
from dflash_deploy.flag_tables import flag_table, parse
from dflash_deploy.hardware import Hardware
from dflash_deploy.registry import Entry, Registry
from dflash_deploy.request import Request
from dflash_deploy.rules import Finding
from dflash_deploy.schema import Draft, EngineName, KvDtype, Recipe, Weights
from dflash_deploy.situation import Situation, flag_for
from dflash_deploy.validate import COMMIT, problems

CODE_FROM_ELSEWHERE = frozenset(
    {"--code-revision", "--speculative-config.code_revision", "--tokenizer", "--tokenizer-path",
     "--tokenizer-revision"}
)  # fmt: skip
"""With consent to run code: what would run other code than that of the pinned commits."""


def check_foreign(entry: Entry, registry: Registry) -> None:
    """An entry from elsewhere is not trusted: nothing of it is used while anything is wrong."""
    if entry.layer == "shipped":
        return
    for problem in problems([entry], registry.engines):
        folder = problem.file.partition("/models/")[0]
        raise RegistryError(str(problem), hint=f"dflash registry check {shlex.quote(folder)}")


def check_servable(entry: Entry, named: Draft | None) -> None:
    reason = (named and named.unservable) or entry.model.unservable
    if reason:
        raise Unsupported(
            f"{named.id if named else entry.name} cannot be served: {reason}",
            hint=_to_serve(entry, named),
        )


def _to_serve(entry: Entry, named: Draft | None) -> str:
    """What makes it servable, where it is only that nobody has read a draft's config."""
    if entry.stands_in:
        return f"dflash registry add {entry.id} --target OWNER/NAME, once that id is known"
    meant = [named] if named else entry.model.drafts
    unread = next((each.id for each in meant if each.block_size is None and each.on_hub), None)
    return f"dflash registry add {unread}" if unread else f"dflash show {entry.name}"


def check_remote_code(
    entry: Entry, draft: Draft, weights: Weights, request: Request, engine: Engine, at: Version,
    words: Mapping[str, tuple[str, ...]],
) -> None:  # fmt: skip
    """Consent is for code at a commit, and the engines extend it to the draft's repository."""
    if entry.target.remote_code != "required":
        return
    commits = [*_unpinned(entry, draft, weights, request, engine, at)]
    said = "".join(f" {flag} COMMIT" for _, flag in commits)
    if not request.trust_remote_code:
        raise Unsupported(
            f"{entry.id} runs Python code from its own repository, and you have not agreed to that",
            hint=f"read it on the hub, and that of {draft.id}, for which it holds as well; then say"
            f" the same command with --trust-remote-code{said and f' --{said}'}",
        )
    for option in CODE_FROM_ELSEWHERE & words.keys():
        if not COMMIT.fullmatch("".join(words[option])):
            raise Unsupported(
                f"{option} brings code from elsewhere beside the code you agree to",
                hint=f"leave {option} out",
            )
    if commits:
        raise Unsupported(
            f"no commit is known here for {' and '.join(name for name, _ in commits)}, whose code"
            " would run",
            hint=f"read it on the hub, and add the commit, 40 hexadecimal digits: --{said}",
        )


def _unpinned(
    entry: Entry, draft: Draft, weights: Weights, request: Request, engine: Engine, at: Version
) -> Iterator[tuple[str, str | None]]:
    """Repositories whose commit is not known, and the flag that says it."""
    repositories = []
    if request.target_path is None and weights.path is None:
        repositories.append((entry.id, weights.revision, "revision"))
    if request.draft_path is None and draft.path is None:
        repositories.append((draft.id, draft.revision, "draft_revision"))
    for name, commit, setting in repositories:
        if not COMMIT.fullmatch(commit or ""):
            yield name, flag_for(engine, setting, at)


def check_recipe_flags(engine: Engine, name: EngineName, version: Version, recipe: Recipe) -> None:
    """What a recipe says in the engine's words, its parser takes: overlays may be wrong."""
    for item in parse(flag_table(name, version), recipe.flags):
        wrong = fault(item)
        if wrong or not item.known:
            said = wrong.says if wrong else "no such option"
            raise Unsupported(
                f"recipe {recipe.name}: {item.as_written} {' '.join(item.words)}: {said}, says"
                f" {engine.distribution} {version}",
                hint=f"--engine-version {engine.releases[-1].version}, or a `version:` in the"
                " recipe's `when:`",
            )


def check_kv_dtype(request: Request, said: KvDtype) -> None:
    """Our own option and the engine's, in one command, mean the same."""
    if "auto" not in (said, request.kv_dtype) and said != request.kv_dtype:
        raise UsageError(
            f"--kv-dtype {request.kv_dtype}, and {said} after `--`: which of them?",
            hint=f"--kv-dtype {said}",
        )


def check_cards(at: Situation, hardware: Hardware, nodes: int) -> None:
    """Copies and stages of the model, said after `--`, each want cards of their own."""
    copies = 1 if "dp_attention" in at.settings else at.number("data_parallel") or 1
    wanted = at.tensor_parallel * (at.number("pipeline_parallel") or 1) * copies
    if hardware.cards and wanted > len(hardware.cards) * nodes:
        raise Unsupported(
            f"what is said after `--` needs {wanted} cards, and there is only {hardware}",
            hint=f"--gpu {hardware.cards[0].name}:{wanted}",
        )


def refuse(found: list[Finding], engine: Engine, version: Version) -> None:
    """Stop at the first rule that refuses; one that a later release lifts asks for that."""
    for item in found:
        if item.severity != "refuse":
            continue
        message = f"{engine.distribution} {version}: {item.message}"
        if item.lifted_in and version < Version(item.lifted_in):
            newest = f"{engine.distribution}=={engine.releases[-1].version}"
            raise EngineError(message, hint=f"dflash engine install {newest}",
                              detail=f"source: {item.source}")  # fmt: skip
        raise Unsupported(message, hint=item.hint, detail=f"source: {item.source}")
