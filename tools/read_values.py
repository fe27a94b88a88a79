"""What the words of a flag may be, and the values in its JSON: asked of what judges them there.

argparse converts a word; vLLM's config class then validates it. Both are asked with words of each
kind, so that a converter or validator of any make answers for itself. Their types only say which
words are worth asking for. Runs inside a release's environment, beside read_flags.py.
"""

from __future__ import annotations

import argparse
import enum
import importlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

Takes = Callable[[str], bool]
Leaves = tuple[dict[str, Any], ...]
NONSENSE = "zz-9"
INTEGERS = ("1", "2", "0", "8", "16", "64", "1024", "100000", "-1", "-7")
FRACTIONS = ("0.5", "1.5", "0.25")
NAMED = ("auto",)
"""Words that some numbers may be instead."""
NUMBERS = frozenset({"integer", "size", "number"})
OBJECTS = frozenset({"dict", "dataclass", "typed-dict"})
ARRAYS = frozenset({"list", "tuple", "set", "frozenset"})
INNER = ("schema", "lax_schema", "json_schema")
"""Where a schema keeps the one it wraps."""
BOUNDS = {"ge": "least", "gt": "above", "le": "most", "lt": "below"}


@dataclass(frozen=True)
class Field:
    """A field of one of vLLM's config classes, with everything that judges its value."""

    validator: Any
    leaves: Leaves
    """What its annotation comes to, unions and wrappers taken apart."""

    @property
    def config_class(self) -> Any:
        return next((leaf["cls"] for leaf in self.leaves if leaf["type"] == "dataclass"), None)


def mark_fields() -> dict[str, tuple[type, str]]:
    """Make vLLM's parser say which field each of its flags is for, in the flag's help."""
    arguments = importlib.import_module("vllm.engine.arg_utils")
    kwargs_of, fields = arguments.get_kwargs, {}

    def marked(config: type) -> dict[str, dict[str, Any]]:
        made: dict[str, dict[str, Any]] = kwargs_of(config)
        for name, options in made.items():
            options["help"] = f"<{config.__name__}.{name}>"
            fields[options["help"]] = (config, name)
        return made

    arguments.get_kwargs = marked
    return fields


def of_flag(action: argparse.Action, field: Field | None) -> dict[str, Any]:
    """What the words of a flag may be; empty: anything, or nobody can say."""
    if type(action).__name__ != "_StoreAction":  # one that does more with its words than keep them
        return {}
    many = action.nargs not in (None, "?")
    convert: Any = action.type or str

    def takes(word: str) -> bool:
        value = convert(word)
        if action.choices is not None:
            return value in action.choices
        if value is not None and field:
            field.validator.validate_python([value] if many else value)
        return True

    leaves = field.leaves if field else ()
    members = action.choices if action.choices is not None else candidates(leaves)
    said = asked(careful(takes), list(members), leaves, str)
    if said.get("kind") in NUMBERS and isinstance(convert("1"), str):
        return {}  # a text that looks like a number: a version, a range of cores
    if field and said.get("kind") == "object" and field.config_class:
        said["keys"] = keys(field.config_class)
    return said


def keys(config: Any) -> list[dict[str, Any]]:
    """Each key of a JSON object and what it may hold; empty where a class takes any key."""
    module = importlib.import_module("pydantic_core")
    whole = module.SchemaValidator(config.__pydantic_core_schema__)
    try:
        whole.validate_json('{"zz_9": 1}')
    except module.ValidationError as error:
        closed = any(item["type"] == "unexpected_keyword_argument" for item in error.errors())
    else:
        closed = False
    _, schema = dataclass_of(config.__pydantic_core_schema__)
    names = [item["name"] for item in schema["fields"] if item.get("init", True)]
    return [{"name": name} | of_key(field_of(config, name)) for name in names] if closed else []


def of_key(field: Field) -> dict[str, Any]:
    def takes(text: str) -> bool:
        field.validator.validate_json(text)
        return True

    return asked(careful(takes), candidates(field.leaves), field.leaves, json.dumps)


def asked(
    takes: Takes, members: list[Any], leaves: Leaves, write: Callable[[Any], str]
) -> dict[str, Any]:
    """What is learnt by asking: members, or a kind with its bounds."""
    if takes(write(NONSENSE)):
        return {}
    nothing = {"nullable": True} if takes("None" if write is str else "null") else {}
    taken = [item for item in members if item not in (None, "") and takes(write(item))]
    words = {item if isinstance(item, str) else json.dumps(item) for item in taken}
    others = [word for word in (*INTEGERS, *FRACTIONS) if word not in words and takes(word)]
    if words and not others:
        return {"choices": distinct(words, takes, write)} | any_case(words, takes, write) | nothing
    types = {leaf["type"] for leaf in leaves}
    kind = None if words or "str" in types else kind_of(takes, types)
    if kind is None:
        return {}
    limits = bounds(takes, leaves) if kind in NUMBERS else {}
    named = [write(word) for word in NAMED if kind in NUMBERS and takes(write(word))]
    return {"kind": kind, **limits, **({"choices": named} if named else {}), **nothing}


def any_case(words: Iterable[str], takes: Takes, write: Callable[[Any], str]) -> dict[str, bool]:
    lettered = [word for word in words if any(map(str.isalpha, word))]
    folded = bool(lettered) and all(takes(write(word.swapcase())) for word in lettered)
    return {"any_case": True} if folded else {}


def distinct(words: Iterable[str], takes: Takes, write: Callable[[Any], str]) -> list[str]:
    """In order; one of those that differ in case alone, where that makes no difference."""
    if any_case(words, takes, write):
        words = {word.casefold(): word for word in sorted(words)}.values()
    return sorted(words)


def kind_of(takes: Takes, types: set[str]) -> str | None:
    whole, fraction = any(map(takes, INTEGERS)), any(map(takes, FRACTIONS))
    if takes("{}") and takes("[]"):
        return "json"
    if (takes("true") and not fraction and not takes("2")) or "bool" in types:
        return "switch" if "bool" in types else None
    if whole and not fraction:
        return "size" if takes("64k") or takes("1k") else "integer"
    if fraction:
        return "number"
    if takes("{}") or types & OBJECTS:
        return "object"
    return "array" if takes("[]") or takes("[1]") or types & ARRAYS else None


def bounds(takes: Takes, leaves: Leaves) -> dict[str, Any]:
    """Those of the annotation, as far as they hold; else the least of the numbers tried."""
    numbers = [leaf for leaf in leaves if leaf["type"] in ("int", "float")]
    if len(numbers) == 1:
        said = {BOUNDS[name]: numbers[0][name] for name in BOUNDS if name in numbers[0]}
        whole = numbers[0]["type"] == "int"
        if whole and "above" in said:
            said["least"] = said.pop("above") + 1
        if whole and "below" in said:
            said["most"] = said.pop("below") - 1
        if said:
            said = {name: int(at) if at == int(at) else at for name, at in said.items()}
            inside = [said[name] for name in ("least", "most") if name in said]
            return said if all(takes(str(number)) for number in inside) else {}
    for least in (1, 0, -1):
        below = (least - 1, least - 2, -7)
        if takes(str(least)) and not any(takes(str(number)) for number in below):
            return {"least": least}
    return {}


def candidates(leaves: Leaves) -> list[Any]:
    """Members of literals and enumerations; of the latter, the names as well."""
    found: list[Any] = []
    for leaf in leaves:
        if leaf["type"] == "literal":
            found += leaf["expected"]
        elif leaf["type"] in ("enum", "is-instance") and issubclass(leaf["cls"], enum.Enum):
            found += [*leaf["cls"].__members__, *(item.value for item in leaf["cls"])]
    return [item for item in found if isinstance(item, str | int) or item is None]


def field_of(config: Any, name: str) -> Field:
    """A field's own part of its class's schema."""
    definitions, schema = dataclass_of(config.__pydantic_core_schema__)
    own = next(item["schema"] for item in schema["fields"] if item["name"] == name)
    whole = {"type": "definitions", "schema": own, "definitions": definitions}
    validator = importlib.import_module("pydantic_core").SchemaValidator(
        whole if definitions else own
    )
    known = {item["ref"]: item for item in definitions}
    return Field(validator, tuple(leaves_of(own, known)))


def dataclass_of(schema: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The definitions of a class's schema, and the part that lists its fields."""
    definitions: list[dict[str, Any]] = []
    while schema["type"] != "dataclass-args":
        definitions += schema.get("definitions", ())
        schema = schema["schema"]
    return definitions, schema


def leaves_of(schema: dict[str, Any], known: dict[str, Any]) -> Iterator[dict[str, Any]]:
    kind = schema["type"]
    if kind == "definition-ref":
        schema = known[schema["schema_ref"]]
        kind = schema["type"]
    inner = next((schema[name] for name in INNER if name in schema), None)
    if kind in ("union", "tagged-union"):
        for choice in schema["choices"]:
            yield from leaves_of(choice[0] if isinstance(choice, tuple) else choice, known)
    elif kind == "chain":
        yield from (leaf for step in schema["steps"] for leaf in leaves_of(step, known))
    elif kind not in OBJECTS | ARRAYS and isinstance(inner, dict):
        yield from leaves_of(inner, known)
    else:
        yield schema


def careful(takes: Takes) -> Takes:
    """Whatever a converter or validator raises is its no."""

    def answer(word: str) -> bool:
        try:
            return takes(word)
        except Exception:
            return False

    return answer
