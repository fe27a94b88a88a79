"""An engine's flags as a table, read from its own argument parser.

python tools/read_flags.py vllm 0.33.0     inside that release's environment: JSON on stdout
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import later_checks
import read_values

VLLM_PARSERS = (
    "vllm.entrypoints.common.cli_args",
    "vllm.entrypoints.launchers.cli_args",
    "vllm.entrypoints.openai.cli_args",
)
"""Where `make_arg_parser` is: 0.33, 0.30, and 0.20 to 0.28."""
VLLM_FILLS_IN = frozenset(
    {"target_model_config", "target_parallel_config", "draft_model_config", "draft_parallel_config"}
)
"""Keys of `--speculative-config` that are not for users."""
VLLM_OWNERS = ("VllmConfig", "ParallelConfig")
"""Classes that check options of theirs which the parser does not read off them."""
VLLM_NAMES = {
    "--reasoning-parser": ("vllm.reasoning", "_REASONING_PARSERS_TO_REGISTER"),
    "--tool-call-parser": ("vllm.tool_parsers", "_TOOL_PARSERS_TO_REGISTER"),
    "--quantization": ("vllm.model_executor.layers.quantization", "QUANTIZATION_METHODS"),
}


def takes(nargs: object, kind: str) -> str:
    """How many words follow a flag: `none`, `one`, `optional` or `many`."""
    if nargs == 0 or any(word in kind for word in ("True", "False", "Const", "Help", "Version")):
        return "none"
    if nargs == "?":
        return "optional"
    return "many" if nargs in ("*", "+") or (isinstance(nargs, int) and nargs > 1) else "one"


def row(
    names: Iterable[str], nargs: object, kind: str, negatives: Iterable[str] = ()
) -> dict[str, Any]:
    """A flag by its long name; `negatives` say the opposite of it."""
    long_first = sorted(names, key=lambda name: not name.startswith("--"))
    opposite = set(negatives) | {name for name in names if name.startswith("--no-")}
    if opposite.issuperset(names):  # a flag that is only ever written --no-x
        opposite = set()
    first, *aliases = [name for name in long_first if name not in opposite]
    made: dict[str, Any] = {"name": first, "takes": takes(nargs, kind)}
    if aliases:
        made["aliases"] = aliases
    if opposite:
        made["negatives"] = sorted(opposite)
    return made


def rows_of(
    parser: argparse.ArgumentParser, fields: Mapping[str, tuple[type, str]] = MappingProxyType({})
) -> list[dict[str, Any]]:
    """One row a flag, with the spellings that the help does not show, and what it may be given.

    `fields`: a field of a config class, by the mark of it in a flag's help.
    """
    actions: dict[argparse.Action, list[str]] = {}
    for name, action in parser._option_string_actions.items():
        actions.setdefault(action, []).append(name)
    return [
        row(names, action.nargs, type(action).__name__,
            getattr(action, "negative_option_strings", ())) | values(action, fields)
        for action, names in actions.items()
    ]  # fmt: skip


def values(action: argparse.Action, fields: Mapping[str, tuple[type, str]]) -> dict[str, Any]:
    if action.nargs == 0:
        return {}
    said = next((place for mark, place in fields.items() if mark in (action.help or "")), None)
    said = said or owner(action.dest)
    if said is None or not said[0].__module__.startswith("vllm.config."):
        return read_values.of_flag(action, None)  # the server's own settings go unvalidated
    return read_values.of_flag(action, read_values.field_of(*said))


def owner(name: str) -> tuple[type, str] | None:
    """The class of vLLM's configuration that has a field of this name, of those that own flags."""
    config = sys.modules.get("vllm.config")
    classes = [getattr(config, name) for name in VLLM_OWNERS] if config else []
    return next(((each, name) for each in classes if name in each.__dataclass_fields__), None)


def vllm_parser() -> argparse.ArgumentParser:
    argparse_utils = next(
        module for name in ("vllm.utils.argparse_utils", "vllm.utils")
        if (module := _maybe(name)) and hasattr(module, "FlexibleArgumentParser")
    )  # fmt: skip
    parsers = next(module for name in VLLM_PARSERS if (module := _maybe(name)))
    made: argparse.ArgumentParser = parsers.make_arg_parser(
        argparse_utils.FlexibleArgumentParser(prog="vllm serve")
    )
    return made


def registered(module: str, table: str) -> list[str]:
    """Names that vLLM looks up when it starts, and its parser takes unseen."""
    return sorted(getattr(importlib.import_module(module), table))


def sglang_parser() -> argparse.ArgumentParser:
    importlib.import_module("stand_ins").stand_in()
    parser = argparse.ArgumentParser(prog="sglang serve")
    importlib.import_module("sglang.srt.server_args").ServerArgs.add_cli_args(parser)
    return parser


def _maybe(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module is there, and something that it needs is not
        return None


def table(engine: str, version: str, rows: Iterable[dict[str, Any]]) -> str:
    """One flag a line, so that two releases can be compared by eye."""
    lines = [
        f"  {json.dumps(row, ensure_ascii=False)}" for row in sorted(rows, key=lambda r: r["name"])
    ]
    head = {"engine": engine, "version": version}
    return json.dumps(head)[:-1] + ', "flags": [\n' + ",\n".join(lines) + "\n]}\n"


def vllm_rows() -> list[dict[str, Any]]:
    platforms: Any = importlib.import_module("vllm.platforms")
    # before 0.33 the parser asks for the device, and a machine without one is an error
    platforms._current_platform = importlib.import_module("vllm.platforms.cpu").CpuPlatform()
    fields = read_values.mark_fields()
    rows = rows_of(vllm_parser(), fields)
    for item in rows:
        if item["name"] in VLLM_NAMES:
            item["choices"] = registered(*VLLM_NAMES[item["name"]])
        if item["name"] == "--optimization-level":
            item["aliases"] = ["-O"]  # vLLM reads -O3 before its parser does
        if item["name"] == "--speculative-config":
            item["keys"] = [key for key in item["keys"] if key["name"] not in VLLM_FILLS_IN]
    return rows


def sglang_rows() -> list[dict[str, Any]]:
    return rows_of(sglang_parser())


ROWS = {"vllm": vllm_rows, "sglang": sglang_rows}


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):  # engines talk while they import
        rows = ROWS[sys.argv[1]]()
        package = Path(str(importlib.import_module(sys.argv[1]).__path__[0]))
        later = later_checks.bounds(sys.argv[1], package)
        rows = [later_checks.bounded(row, later) for row in rows]
    sys.stdout.write(table(sys.argv[1], sys.argv[2], rows))
