"""A plan as the file that the engine itself reads: `--config FILE` of vLLM and SGLang."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from dflash_deploy.errors import Unsupported
from dflash_deploy.flag_tables import Given, flag_table, parse
from dflash_deploy.plan import Plan
from dflash_deploy.render.documents import dump
from dflash_deploy.schema import EngineName

UNREADABLE = {"--cuda-graph-max-bs-decode": SpecifierSet(">=0.5.14,<0.5.20")}
"""Options that SGLang's reader of files takes for an older one's second name, and refuses."""


def render(plan: Plan, engine: EngineName) -> str:
    """YAML, a key a flag. Raises Unsupported for a plan of another engine."""
    if plan.engine != engine:
        raise Unsupported(
            f"this plan is for {plan.engine}, and the file is {engine}'s",
            hint=f"--engine {engine}",
        )
    return dump(dict(_keys(plan)))


def _keys(plan: Plan) -> Iterator[tuple[str, Any]]:
    table = flag_table(plan.engine, Version(plan.version))
    start, *rest = parse(table, plan.argv[2:])
    if start.flag is None:  # vLLM's model is a word of its own
        yield "model", start.words[0]
    else:
        rest = [start, *rest]
    for item in rest:
        if plan.engine == "sglang":
            _check_sglang(item, plan.version)
        yield _name(item), _value(item, plan.engine)


def _name(item: Given) -> str:
    """As it is written: a letter alone is spelled out, for a file has long names only."""
    written = item.as_written if item.as_written.startswith("--") else item.flag or ""
    return written.removeprefix("--")


def _value(item: Given, engine: EngineName) -> Any:
    if not item.words:
        return True
    # releases of SGLang before 0.5.17 write an object back in Python's words
    values = [_scalar(word, objects=engine == "vllm") for word in item.words]
    return values[0] if len(values) == 1 else values


def _check_sglang(item: Given, version: str) -> None:
    """Raises Unsupported for what its reader of files does not take."""
    if len(item.words) > 1:
        raise Unsupported(
            f"SGLang takes no list from its file, and {item.flag} is one",
            hint="--format command",
        )
    if version in UNREADABLE.get(item.flag or "", ()):
        raise Unsupported(
            f"SGLang {version} does not read {item.flag} from its file (0.5.20 does)",
            hint="--format command, or --engine-version 0.5.20",
        )


def _scalar(text: str, *, objects: bool) -> Any:
    """A number or an object, where it is written back as the very same text; else the text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(value, dict):
        return value if objects and json.dumps(value) == text else text
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value if str(value) == text else text
    return text
