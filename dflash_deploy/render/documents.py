"""Documents: made as data, dumped here."""

from __future__ import annotations

from typing import Any

import yaml


class Script(str):
    """Lines for a shell, written as they are read."""

    __slots__ = ()


class _Plain(yaml.SafeDumper):
    """Without anchors: a value that stands twice is written twice."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True


def _script(dumper: _Plain, script: Script) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(script), style="|")


_Plain.add_representer(Script, _script)


def dump(*documents: Any) -> str:
    """YAML, keys in the order they were given."""
    several = len(documents) > 1
    return yaml.dump_all(
        documents, Dumper=_Plain, sort_keys=False, width=1000, explicit_start=several
    ).rstrip("\n")


def literal(text: str) -> str:
    """Compose and Kubernetes fill in what follows a dollar sign, unless it is doubled."""
    return text.replace("$", "$$")
