"""An engine's flags as a table, read from its own argument parser.

python tools/read_flags.py vllm 0.33.0     inside that release's environment: JSON on stdout
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import json
import sys
from collections.abc import Iterable
from typing import Any

VLLM_PARSERS = (
    "vllm.entrypoints.common.cli_args",
    "vllm.entrypoints.launchers.cli_args",
    "vllm.entrypoints.openai.cli_args",
)
"""Where `make_arg_parser` is: 0.33, 0.30, and 0.20 to 0.28."""
VLLM_NAMES = {
    "--reasoning-parser": ("vllm.reasoning", "_REASONING_PARSERS_TO_REGISTER"),
    "--tool-call-parser": ("vllm.tool_parsers", "_TOOL_PARSERS_TO_REGISTER"),
}


def takes(nargs: object, kind: str) -> str:
    """How many words follow a flag: `none`, `one`, `optional` or `many`."""
    if nargs == 0 or any(word in kind for word in ("True", "False", "Const", "Help", "Version")):
        return "none"
    if nargs == "?":
        return "optional"
    return "many" if nargs in ("*", "+") or (isinstance(nargs, int) and nargs > 1) else "one"


def row(
    names: Iterable[str], nargs: object, kind: str, choices: Iterable[Any] | None,
    negatives: Iterable[str] = (),
) -> dict[str, Any]:  # fmt: skip
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
    if choices:
        made["choices"] = sorted({str(choice) for choice in choices})
    return made


def rows_of(parser: argparse.ArgumentParser) -> list[dict[str, Any]]:
    """One row a flag, with the spellings that the help does not show."""
    actions: dict[argparse.Action, list[str]] = {}
    for name, action in parser._option_string_actions.items():
        actions.setdefault(action, []).append(name)
    return [
        row(names, action.nargs, type(action).__name__, action.choices,
            getattr(action, "negative_option_strings", ()))
        for action, names in actions.items()
    ]  # fmt: skip


def vllm_parser() -> argparse.ArgumentParser:
    platforms: Any = importlib.import_module("vllm.platforms")
    # before 0.33 the parser asks for the device, and a machine without one is an error
    platforms._current_platform = importlib.import_module("vllm.platforms.cpu").CpuPlatform()
    argparse_utils = next(
        module for name in ("vllm.utils.argparse_utils", "vllm.utils")
        if (module := _maybe(name)) and hasattr(module, "FlexibleArgumentParser")
    )  # fmt: skip
    parsers = next(module for name in VLLM_PARSERS if (module := _maybe(name)))
    made: argparse.ArgumentParser = parsers.make_arg_parser(
        argparse_utils.FlexibleArgumentParser(prog="vllm serve")
    )
    return made


def vllm_keys() -> list[str]:
    """What `--speculative-config` may hold, but for what vLLM fills in itself."""
    config: Any = importlib.import_module("vllm.config.speculative").SpeculativeConfig
    own = ("target_model_config", "target_parallel_config", "draft_model_config",
           "draft_parallel_config")  # fmt: skip
    return sorted(field.name for field in dataclasses.fields(config) if field.name not in own)


def registered(module: str, table: str) -> list[str]:
    """Names that vLLM looks up when it starts, and its parser takes unseen."""
    return sorted(getattr(importlib.import_module(module), table))


def sglang_parser() -> argparse.ArgumentParser:
    importlib.import_module("stand_ins").stand_in()
    parser = argparse.ArgumentParser(prog="sglang serve")
    importlib.import_module("sglang.srt.server_args").ServerArgs.add_cli_args(parser)
    return parser


PARSERS = {"vllm": vllm_parser, "sglang": sglang_parser}


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


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):  # engines talk while they import
        rows = rows_of(PARSERS[sys.argv[1]]())
        for item in rows:
            if item["name"] in VLLM_NAMES and sys.argv[1] == "vllm":
                item["choices"] = registered(*VLLM_NAMES[item["name"]])
            if item["name"] == "--optimization-level":
                item["aliases"] = ["-O"]  # vLLM reads -O3 before its parser does
            if item["name"] == "--speculative-config":
                item["keys"] = vllm_keys()
    sys.stdout.write(table(sys.argv[1], sys.argv[2], rows))
