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
_TOO_LARGE = 1 << 63
"""No size or count is; sums with it would overflow a float later."""
_LONGEST = 400
"""Letters of a message: it may quote a value of a whole file."""


class _StrictLoader(_Base):
    """No duplicate keys, no anchors, and none of YAML 1.1's surprises.

    `thinking: on` stays a string, and so do `2026-11-27`, `010`, `1:30` and `1_000`: a field that
    wants a number then refuses them, where YAML 1.1 would read 8, 90 and 1000. A key is a word,
    whatever it looks like.
    """

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if node in self.constructed_objects or node in self.recursive_objects:
            raise _refused(_ANCHOR, node)
        if not isinstance(node, yaml.ScalarNode):
            return super().construct_object(node, deep=deep)
        try:
            value = super().construct_object(node, deep=deep)
        except (ValueError, LookupError) as error:  # a long number, `!!int x`, `!!bool maybe`
            raise _refused(_unreadable(node), node) from error
        if isinstance(value, (int, float)) and not abs(value) < _TOO_LARGE:
            raise _refused(f"`{_start(node)}` is no number that anything has", node)
        return value

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        """An escape in double quotes would reach somebody's terminal: text is what can be read."""
        value = super().construct_scalar(node)
        if isinstance(value, str) and not value.replace("\n", "").isprintable():
            raise _refused("text holds control characters", node)
        return value

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        if not isinstance(node, yaml.MappingNode):  # `!!map [1]`
            return super().construct_mapping(node, deep=deep)
        mapping: dict[Hashable, Any] = {}
        for key, value in node.value:
            # errors quote a key in backquotes, and are one line
            if not isinstance(key, yaml.ScalarNode) or set(key.value) & {"\n", "`"}:
                raise _refused("a key is a plain word", key)
            name = self.construct_scalar(key)
            if name in mapping:
                raise _refused(f"the key `{name}` stands here twice", key)
            mapping[name] = self.construct_object(value, deep=deep)
        return mapping


def _refused(why: str, node: yaml.Node) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, why, node.start_mark)


def _unreadable(node: yaml.ScalarNode) -> str:
    kinds = {"int": "a whole number", "float": "a number", "bool": "true or false"}
    return f"`{_start(node)}` cannot be read as {kinds.get(node.tag.removeprefix(_TAG), 'a value')}"


def _start(node: yaml.ScalarNode) -> str:
    """A number may have thousands of digits."""
    text: str = node.value
    return text if len(text) <= 40 else f"{text[:37]}..."


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


def read_yaml(text: str, name: str, hint: str | None = None) -> Any:
    """Parse one document. `name` is how an error calls the file, `hint` what it advises."""
    try:
        if "&" in text:
            _refuse_anchors(text)
        document = yaml.load(text, Loader=_StrictLoader)  # noqa: S506 - a SafeLoader, made stricter
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = (mark.line, mark.column) if mark else None
        raise _error(text, name, at, error.problem or error.context or "", hint) from error
    except yaml.reader.ReaderError as error:
        sign = yaml.reader.Reader.NON_PRINTABLE.search(text)
        raise _error(text, name, _line_column(text, sign.start() if sign else 0),
                     str(error.reason), hint) from error  # fmt: skip
    except RecursionError as error:  # without libyaml, which counts the depth itself
        raise wrong(name, None, "", "nested too deeply", hint) from error
    if document is None:
        raise wrong(name, 1, "", "the file is empty", hint)
    return document


def text_of(data: bytes, name: str, hint: str | None = None) -> str:
    """A file as text, its lines ended alike. Raises RegistryError with the line of a bad byte."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = _unified(data[: error.start].decode("utf-8"))
        at = _line_column(before, len(before))
        said = f"byte {data[error.start]:#04x} is no UTF-8: {error.reason}"
        raise _error(_unified(data.decode("utf-8", "replace")), name, at, said, hint) from error
    return _unified(text)


def one_line(text: str) -> str:
    """Somebody else's text in a message: one line, not too long, and no effect on a terminal."""
    legible = "".join(sign if sign.isprintable() else "?" for sign in text[: _LONGEST + 1])
    return legible if len(legible) <= _LONGEST else legible[:_LONGEST] + "..."


def wrong(
    name: str, line: int | None, field: str, said: str, hint: str | None = None
) -> RegistryError:
    """`file:line: field: what is wrong`; a line or a field that is not known is left out."""
    place = one_line(name) + (f":{line}" if line else "")
    parts = (place, one_line(field), one_line(said))
    return RegistryError(": ".join(part for part in parts if part), hint=hint)


def _error(
    text: str, name: str, at: tuple[int, int] | None, said: str, hint: str | None
) -> RegistryError:
    return wrong(name, at[0] + 1 if at else None, field_at(text, at) if at else "", said, hint)


def _unified(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _line_column(text: str, position: int) -> tuple[int, int]:
    """Both from 0, as YAML's marks count."""
    return text.count("\n", 0, position), position - text.rfind("\n", 0, position) - 1


def _refuse_anchors(text: str) -> None:
    """An anchor that nothing refers to leaves no trace in the parsed document."""
    for token in yaml.scan(text, Loader=_StrictLoader):
        if isinstance(token, yaml.AnchorToken):
            raise yaml.constructor.ConstructorError(None, None, _ANCHOR, token.start_mark)


def field_at(text: str, at: tuple[int, int]) -> str:
    """The path of what stands at a line and column, as `drafts[0].block_size`.

    Empty where nothing has one, and in what cannot be taken apart at all.
    """
    legible = yaml.reader.Reader.NON_PRINTABLE.sub("x", text)
    try:
        node = yaml.compose(legible, Loader=_StrictLoader)
    except (yaml.YAMLError, RecursionError):
        return ""
    path = ""
    seen: set[yaml.Node] = set()  # an alias may lead back
    while node is not None and node not in seen:
        seen.add(node)
        step, node = _inside(node, at)
        path += step
    return path.removeprefix(".")


def _inside(node: yaml.Node, at: tuple[int, int]) -> tuple[str, yaml.Node | None]:
    """The part of a node that stands there, and what its path is called."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if _starts(key) <= at < max(_ends(key), _ends(value)):
                return f".{key.value}" if isinstance(key, yaml.ScalarNode) else "", value
    elif isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            if _starts(item) <= at < _ends(item):
                return f"[{number}]", item
    return "", None


def _starts(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line, node.start_mark.column


def _ends(node: yaml.Node) -> tuple[int, int]:
    return node.end_mark.line, node.end_mark.column


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
