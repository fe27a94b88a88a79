"""What is said of a file of options: each under the file's name, and no value that is secret."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from dflash_deploy.explain import speculation
from dflash_deploy.explain.judged import Judged, as_part
from dflash_deploy.explain.secret import is_secret_option
from dflash_deploy.explain.serving import Serving
from dflash_deploy.flag_tables import Given


def as_filed(found: Iterable[Judged], serving: Serving) -> Iterator[Judged]:
    """Parts that only the file has bear its name; a key in it is in the right place."""
    file = serving.command.config
    typed = {part for item in serving.given if not serving.is_filed(item) for part in _parts(item)}
    names = {} if file is None else {
        part: name for item in serving.filed for part, name in _named(item, file.name)
        if part not in typed
    }  # fmt: skip
    for item in found:
        if item.part in names and item.part.endswith(" ...") and item.verdict == "wrong":
            yield Judged(names[item.part], "fine", "in a file that nobody else can read: chmod 600")
        else:
            yield replace(item, part=names.get(item.part, item.part))


def judge_file(part: str, serving: Serving) -> Judged:
    """The option that names the file."""
    file = serving.command.config
    if file is None:
        return Judged(part, "wrong", "no file is named")
    if file.trouble:
        return Judged(part, "note", f"the file {file.trouble}; to have it judged, paste its lines"
                      " here as options: --key value")  # fmt: skip
    if not serving.filed:
        return Judged(part, "unneeded", "there is no option in it")
    wrong = [item.as_written for item in serving.filed if "_" in item.as_written.partition(".")[0]]
    if wrong and serving.name == "sglang":
        return Judged(part, "wrong", f"SGLang takes no {wrong[0].removeprefix('--')} in a file:"
                      " keys are written with dashes", "SGLang 0.5.23, its own parser")  # fmt: skip
    return Judged(part, "fine", "judged option by option; the right command says them itself")


def _named(item: Given, file: str) -> Iterator[tuple[str, str]]:
    """Each part as it is judged, and as it is shown: of an unknown key, no value."""
    for part in _parts(item):
        shown = part if item.known or not item.words else f"{item.as_written} ..."
        shown = shown if item.flag else "..."
        yield part, f"{shown} ({file})"


def _parts(item: Given) -> list[str]:
    if is_secret_option(item.flag or ""):
        return [f"{item.as_written.partition('=')[0]} ..."]
    keys = [speculation.part(item, key, value) for key, value in speculation.keys(item).items()]
    return [as_part(item), *keys]
