"""A registry entry as a file: dumped from data, without the schema's defaults. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import yaml

from dflash_deploy.schema import Model


class _Dumper(yaml.SafeDumper):
    """Lists are indented, and what stands in two places is written out in both."""

    def ignore_aliases(self, _: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, indentless and flow)


def as_yaml(model: Model, comments: Iterable[str] = ()) -> str:
    """The text of the file; `comments` are lines at its top, without signs that do not print."""
    top = "".join(f"# {_printable(line)}".rstrip() + "\n" for line in comments)
    return top + yaml.dump(
        plain(model),
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=None,  # on one line where it holds plain values alone
        allow_unicode=True,
        width=100,
    )


def plain(value: Any) -> Any:
    """Structs as mappings without their defaults; a required field that is unknown stays null."""
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.fields(value)
        pairs = ((field, getattr(value, field.name)) for field in fields)
        return {field.name: plain(given) for field, given in pairs if given != _default(field)}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def _printable(line: str) -> str:
    return "".join(sign for sign in line if sign.isprintable())
