"""Argument parsers made from small tables: argparse itself gives the engines' real wording."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from tests.fakes.knobs import release


@dataclass(frozen=True)
class Flag:
    name: str
    nargs: str | None = None
    """None: one value; "+": several; "0": a switch."""
    since: str = "0"
    until: str = "999"
    """The first release that does not know it any more."""


def parser(prog: str, flags: tuple[Flag, ...], version: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog=prog, usage=f"{prog} [model] [options]")
    for flag in flags:
        if not release(flag.since) <= release(version) < release(flag.until):
            continue
        if flag.nargs == "0":
            made.add_argument(flag.name, action="store_true")
        elif flag.nargs == "+":
            made.add_argument(flag.name, nargs="+")
        else:
            made.add_argument(flag.name)
    return made
