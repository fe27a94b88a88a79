"""A command option by option: the first thing to be said of each, or that it is fine."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from packaging.version import Version

from dflash_deploy.engine_args import OWN_OPTIONS
from dflash_deploy.explain import speculation
from dflash_deploy.explain.code import RUNS_CODE
from dflash_deploy.explain.config_keys import backend_named, judge_keys
from dflash_deploy.explain.filed import judge_file
from dflash_deploy.explain.judged import Judged, as_part
from dflash_deploy.explain.pair import judge_draft
from dflash_deploy.explain.renamed import today
from dflash_deploy.explain.secret import is_secret_option
from dflash_deploy.explain.seen import Seen
from dflash_deploy.explain.serving import Serving
from dflash_deploy.explain.variables import needs_shell
from dflash_deploy.flag_faults import fault
from dflash_deploy.flag_tables import Given, first_with, flag_table, last_with
from dflash_deploy.json_options import SPECULATION
from dflash_deploy.secret_keys import secret_key

_DEFAULTS = {
    ("sglang", "--tp-size"): ("1",), ("sglang", "--dtype"): ("bfloat16", "auto"),
    ("vllm", "--tensor-parallel-size"): ("1",), ("vllm", "--dtype"): ("bfloat16", "auto"),
}  # fmt: skip
"""What the engine does anyway: bfloat16 is the checkpoints' own type."""
_BACKENDS = frozenset({"attention_backend", "draft_attention_backend"})
_COUNTS = frozenset(
    {"concurrency", "tensor_parallel", "batched_tokens", "port", "block_size", "pipeline_parallel"}
)
_COUNT = re.compile(r"[1-9]\d{0,8}")
_TOKENS = re.compile(r"[1-9]\d{0,8}(?:\.\d{1,3})?[kKmMgG]?|-1|auto")
_HIGHEST_PORT = 65535
_PARSER = "the release's own parser"


def judge_flags(seen: Seen) -> Iterator[Judged]:
    serving, after_secret = seen.serving, False
    for given in serving.given:
        if given.flag is None and after_secret:
            yield Judged("...", "wrong", "a word that belongs to no option")
        elif serving.repeated(given) and not is_secret_option(given.flag or ""):
            yield Judged(as_part(given), "unneeded", "said again further on: the last word counts")
        elif given.flag is not None or given.words != (serving.target,):
            yield from _option(given, seen)
        if given.flag is not None:
            after_secret = is_secret_option(given.flag)


def _option(given: Given, seen: Seen) -> Iterator[Judged]:
    if given.flag in (SPECULATION, *speculation.SHORT) and given.known:
        yield from judge_keys(given, seen)
    elif seen.serving.meaning(given.flag) not in seen.spoken:
        said = (check(given, seen) for check in _CHECKS)
        fine = Judged(as_part(given), "fine", "accepted by this release")
        yield next((item for item in said if item), fine)


def _word(given: Given, _: Seen) -> Judged | None:
    if given.flag is not None or any(map(needs_shell, given.words)):
        return None
    return Judged(as_part(given), "wrong", "a word that belongs to no option")


def _secret(given: Given, seen: Seen) -> Judged | None:
    if name := secret_key(given):
        return Judged(as_part(given), "wrong", f"`{name}` is a secret, and on a command line there"
                      " for everybody to see: it belongs into a file for --config")  # fmt: skip
    if not is_secret_option(given.flag or ""):
        return None
    instead = "export HF_TOKEN=..." if "hf" in (given.flag or "") else "export DFLASH_API_KEY=..."
    if seen.serving.command.container is not None and seen.serving.name == "sglang":
        instead = "SGLang takes it no other way in a container: a proxy in front can ask for it"
    return Judged(f"{given.as_written.partition('=')[0]} ...", "wrong", "a key on a command line"
                  f" is there for everybody to see: {instead}")  # fmt: skip


def _unknown(given: Given, seen: Seen) -> Judged | None:
    if given.known:
        return None
    serving, part, name = seen.serving, as_part(given), given.flag or ""
    version, found = serving.version, today(given, serving)
    instead = found.said if found else ""
    last, first = last_with(serving.name, name), first_with(serving.name, name)
    if last and Version(last) < version:
        return Judged(part, "stale", f"gone after {last}{instead}", _PARSER)
    if given.candidates:
        return Judged(part, "wrong", f"may mean {' or '.join(given.candidates[:3])}: the parser"
                      " refuses it", _PARSER)  # fmt: skip
    if first and Version(first) > version:
        return Judged(part, "wrong", f"only from {first} on{instead.removesuffix(' now')}", _PARSER)
    near = f": perhaps {close}" if (close := _close(name, serving)) else ""
    return Judged(part, "wrong", f"{serving.name} {version} has no such option{instead or near}",
                  _PARSER)  # fmt: skip


def _close(name: str, serving: Serving) -> str | None:
    """An option of this release that looks like it."""
    table = flag_table(serving.name, serving.version)
    names = table.names() if table else {}
    if name[1:] in names:  # --pp for -pp
        return names[name[1:]].name
    return next(iter(difflib.get_close_matches(name[:80], names, n=1, cutoff=0.8)), None)


def _choice(given: Given, _: Seen) -> Judged | None:
    wrong = fault(given)
    if wrong is None:
        return None
    choices = f": {', '.join(wrong.accepted[:12])}" if wrong.accepted else ""
    return Judged(as_part(given), "wrong", f"{wrong.says}{choices}", _PARSER)


def _count(given: Given, seen: Seen) -> Judged | None:
    setting, word = seen.serving.meaning(given.flag), "".join(given.words)
    tokens = setting == "context" or (setting == "batched_tokens" and seen.serving.name == "vllm")
    pattern = _TOKENS if tokens else _COUNT if setting in _COUNTS else None
    if pattern is None:
        return None
    if pattern.fullmatch(word) and not (setting == "port" and int(word) > _HIGHEST_PORT):
        return None
    return Judged(as_part(given), "wrong", "not a number that it takes")


def _draft(given: Given, seen: Seen) -> Judged | None:
    setting, words = seen.serving.meaning(given.flag), given.words
    if setting == "draft":
        return judge_draft(as_part(given), seen.serving)
    if setting == "algorithm" and words and words[0].upper() != "DFLASH":
        return Judged(as_part(given), "wrong", "DFlash 1 and 2 are both DFLASH")
    return None


def _remote_code(given: Given, seen: Seen) -> Judged | None:
    if given.flag != "--trust-remote-code":
        return None
    entry = seen.serving.entry
    if entry is not None and entry.target.remote_code == "none":
        return Judged(as_part(given), "unneeded", "runs Python code of the repositories for"
                      " nothing: the engine has this target and DFlash in it")  # fmt: skip
    return Judged(as_part(given), "note", "runs Python code of the repository: only at a commit"
                  " that you have read")  # fmt: skip


def _runs_code(given: Given, _: Seen) -> Judged | None:
    if given.flag not in RUNS_CODE:
        return None
    return Judged(as_part(given), "note", "may run code that it names, or reads it from elsewhere:"
                  " left out, add it yourself if it is yours")  # fmt: skip


def _default(given: Given, seen: Seen) -> Judged | None:
    defaults = _DEFAULTS.get((seen.serving.name, given.flag or ""), ())
    unneeded = bool(given.words) and set(given.words) <= set(defaults)
    return Judged(as_part(given), "unneeded", "the default") if unneeded else None


def _backend(given: Given, seen: Seen) -> Judged | None:
    setting = seen.serving.meaning(given.flag)
    if setting not in _BACKENDS or not given.words:
        return None
    return backend_named(as_part(given), setting, given.words[0], seen)


def _budget(given: Given, seen: Seen) -> Judged | None:
    if seen.serving.meaning(given.flag) != "batched_tokens":
        return None
    return Judged(as_part(given), "unneeded", "a round number for 0.20 to 0.27, which do not start"
                  " with their own defaults: the plan computes it from the requests",
                  "vLLM config/vllm.py 0.26.0, 0.28.0, 0.33.0")  # fmt: skip


def _names(given: Given, seen: Seen) -> Judged | None:
    if seen.serving.meaning(given.flag) != "served_names":
        return None
    planned = seen.planned.get("served_names", ())
    if not planned or set(given.words) <= set(planned):
        return None
    return Judged(as_part(given), "note", f"the plan answers to {' and '.join(planned)}")


def _address(given: Given, seen: Seen) -> Judged | None:
    key = {"--api-key", "--config"} & {item.flag for item in seen.serving.given}
    everywhere = {"0.0.0.0", "::"} & set(given.words)  # noqa: S104
    if seen.serving.meaning(given.flag) != "host" or not everywhere:
        return None
    box = seen.serving.command.container
    if box is not None and not box.shares_network:
        return Judged(as_part(given), "fine", "inside the container; -p decides who reaches it")
    if key:
        return None
    return Judged(as_part(given), "note", "whoever reaches this machine may use it, and no key is"
                  " asked for: export DFLASH_API_KEY=...")  # fmt: skip


def _file(given: Given, seen: Seen) -> Judged | None:
    if seen.serving.meaning(given.flag) != "config_file":
        return None
    return judge_file(as_part(given), seen.serving)


def _contradicts(given: Given, _: Seen) -> Judged | None:
    """What the plan does otherwise, and no rule speaks of."""
    if given.flag not in _AGAINST_PLANS:
        return None
    return Judged(as_part(given), "note", "left out of the right command, for the sake of"
                  f" {OWN_OPTIONS[given.flag]}")  # fmt: skip


def _shell(given: Given, _: Seen) -> Judged | None:
    if not any(map(needs_shell, given.words)):
        return None
    return Judged(as_part(given), "note", "a shell fills it in: left out of the right command, say"
                  " it there yourself")  # fmt: skip


_AGAINST_PLANS = frozenset({"--uds", "--headless", "--grpc-mode", "--disable-log-stats"})
_CHECKS = (_word, _secret, _unknown, _file, _contradicts, _shell, _choice, _count, _draft,
           _remote_code, _runs_code, _default, _backend, _budget, _names, _address)  # fmt: skip
