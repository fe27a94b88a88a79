"""Strict YAML: what a registry file may contain, and the line an error is on."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import yaml

from dflash_deploy.errors import RegistryError

try:
    from yaml import CSafeLoader as _Base
except ImportError:  # a PyYAML built without libyaml: slower, the same result
    from yaml import SafeLoader as _Base  # type: ignore[assignment]

_TAG = "tag:yaml.org,2002:"
_ANCHOR = "anchors and aliases are not used here: write the value out"


class _StrictLoader(_Base):
    """No duplicate keys, no anchors, and none of YAML 1.1's surprises.

    `thinking: on` stays a string, and so do `2026-11-27`, `010`, `1:30` and `1_000`: a field that
    wants a number then refuses them, where YAML 1.1 would read 8, 90 and 1000.
    """

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if node in self.constructed_objects or node in self.recursive_objects:
            raise yaml.constructor.ConstructorError(None, None, _ANCHOR, node.start_mark)
        return super().construct_object(node, deep=deep)

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        """An escape in double quotes would reach somebody's terminal: text is what can be read."""
        value = super().construct_scalar(node)
        if isinstance(value, str) and not value.replace("\n", "").isprintable():
            raise yaml.constructor.ConstructorError(
                None, None, "text holds control characters", node.start_mark
            )
        return value

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            # errors quote a key in backquotes, and are one line
            if not isinstance(key, yaml.ScalarNode) or set(key.value) & {"\n", "`"}:
                raise yaml.constructor.ConstructorError(
                    None, None, "a key is a plain word", key.start_mark
                )
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key `{key.value}` stands here twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


# JSON's values and nothing else: a tag such as !!timestamp or !!python/... has no constructor.
_StrictLoader.yaml_constructors = {
    tag: constructor
    for tag, constructor in _Base.yaml_constructors.items()
    if tag is None
    or tag.removeprefix(_TAG) in {"null", "bool", "int", "float", "str", "seq", "map"}
}
_StrictLoader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("null", r"^(?:~|null|Null|NULL|)$", [*"~nN", ""]),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", [*"tTfF"]),
    ("int", r"^[-+]?(?:0|[1-9][0-9]*)$", [*"-+0123456789"]),
    ("float", r"^[-+]?[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?$", [*"-+0123456789"]),
):
    _StrictLoader.add_implicit_resolver(_TAG + _tag, re.compile(_pattern), _first)


def read_yaml(text: str, name: str) -> Any:
    """Parse one document. `name` is how an error calls the file."""
    try:
        if "&" in text:
            _refuse_anchors(text)
        document = yaml.load(text, Loader=_StrictLoader)  # noqa: S506 - a SafeLoader, made stricter
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}" if mark else name
        raise RegistryError(f"{where}: {error.problem or error.context}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise RegistryError(f"{name}:{line}: {error.reason}") from error
    except ValueError as error:  # `!!int x`, and the like
        raise RegistryError(f"{name}: {error}") from error
    if document is None:
        raise RegistryError(f"{name}:1: the file is empty")
    return document


def _refuse_anchors(text: str) -> None:
    """An anchor that nothing refers to leaves no trace in the parsed document."""
    for token in yaml.scan(text, Loader=_StrictLoader):
        if isinstance(token, yaml.AnchorToken):
            raise yaml.constructor.ConstructorError(None, None, _ANCHOR, token.start_mark)


def line_of(text: str, path: str) -> int | None:
    """The line (from 1) of a msgspec path such as `$.drafts[0].block_size`, or of its parent.

    The line of a field is that of its key; a field that is not there has its parent's line.
    """
    node = yaml.compose(text, Loader=_StrictLoader)
    if node is None:
        return None
    line = node.start_mark.line
    for key, index in re.findall(r"\.([^.\[\]]+)|\[(\d+)\]", path):
        found = _child(node, key, index)
        if found is None:
            break
        line, node = found
    return line + 1


def _child(node: yaml.Node, key: str, index: str) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        return next(
            ((name.start_mark.line, value) for name, value in node.value if name.value == key),
            None,
        )
    if isinstance(node, yaml.SequenceNode) and index and int(index) < len(node.value):
        item: yaml.Node = node.value[int(index)]
        return item.start_mark.line, item
    return None
