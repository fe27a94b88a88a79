"""A config.json as others write it: where its fields are, and what is wrong with them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from dflash_deploy.errors import DownloadError, Unsupported
from dflash_deploy.schema import Layers

LARGEST = 1 << 40
"""No size or count in a config.json is above this; what is would only overflow something later."""
MOST_LAYERS = 4096
DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_WORD = re.compile(r"[a-z0-9][a-z0-9_.-]*", re.ASCII)


@dataclass(frozen=True)
class Stored:
    """The size of weights as their files say it; None: it takes the tensors' headers to know."""

    bytes: int
    parameters: int | None = None

    @property
    def gib(self) -> float:
        return as_gib(self.bytes)


class Fields:
    """Looks fields up in several places, and keeps account of where they were and what is wrong.

    A field that is missing or wrong gets a stand-in, so that `refuse` can name all of them at once.
    """

    def __init__(self, name: str, *places: tuple[str, Mapping[str, Any]]) -> None:
        """`places`: a prefix such as `dflash_config.` and the mapping it stands for; first wins."""
        self.name = name
        self.origins: dict[str, str] = {}
        self.missing: list[str] = []
        self._places = places
        self.errors: list[str] = []

    def get(self, name: str, *others: str) -> Any:
        """What is given under any of the names, or None."""
        for each in (name, *others):
            for prefix, place in self._places:
                value = place.get(each)
                if value is not None:
                    self.origins[name] = prefix + each
                    return value
        return None

    def optional_count(
        self, name: str, *others: str, least: int = 1, most: int = LARGEST
    ) -> int | None:
        value = self.get(name, *others)
        if value is None:
            return None
        if type(value) is not int or not least <= value <= most:
            wanted = f"at least {least}" if most == LARGEST else f"{least} to {most}"
            self.wrong(name, value, f"a whole number of {wanted}")
            return least
        return value

    def count(
        self, name: str, *others: str, default: int | None = None, why: str = "", least: int = 1,
        most: int = LARGEST,
    ) -> int:  # fmt: skip
        """A number that must be there, unless there is a default and a reason for it."""
        value = self.optional_count(name, *others, least=least, most=most)
        if value is not None:
            return value
        if default is None:
            self.missing.append(name)
            return least
        self.origins[name] = why
        return default

    def counts(self, name: str, *, least: int = 0) -> list[int]:
        value = self.get(name)
        if value is None:
            self.missing.append(name)
            return []
        if not isinstance(value, list) or not value or not all(
            type(item) is int and least <= item <= LARGEST for item in value
        ):  # fmt: skip
            self.wrong(name, value, f"a list of whole numbers of at least {least}")
            return []
        return list(value)

    def flag(self, name: str, *others: str) -> bool | None:
        value = self.get(name, *others)
        if value is not None and not isinstance(value, bool):
            self.wrong(name, value, "true or false")
            return None
        return value

    def words(self, name: str) -> list[str] | None:
        value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.wrong(name, value, "a list of words")
            return None
        return value

    def wrong(self, name: str, value: object, wanted: str) -> None:
        self.errors.append(f"{self.origins.get(name, name)} is {shown(value)}, not {wanted}")

    def refuse(self, *, hint: str | None = None, detail: str | None = None) -> None:
        """Raise Unsupported if anything was missing or wrong: one line that names all of it."""
        lacks = [f"lacks {', '.join(dict.fromkeys(self.missing))}"] if self.missing else []
        if said := "; ".join([*lacks, *dict.fromkeys(self.errors)]):
            raise Unsupported(f"config.json of {self.name}: {said}", hint=hint, detail=detail)


def shown(value: object) -> str:
    """Somebody else's text in a message: short, on one line, and without effect on a terminal."""
    text = ascii(value)
    return text if len(text) <= 40 else text[:37] + "..."


def parse(data: bytes, where: str) -> dict[str, Any]:
    """Raises DownloadError for what is no JSON object."""
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DownloadError(
            f"{where} is no JSON object: {error}", hint="fetch it again, or mend it"
        ) from error


def inner(config: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """A part of the config that may be there under one of these names; else nothing."""
    found = (config[name] for name in names if isinstance(config.get(name), Mapping))
    return next(found, {})


def architecture(fields: Fields) -> str | None:
    """The first of `architectures`."""
    names = fields.words("architectures")
    if not names:
        fields.missing.append("architectures")
        return None
    if not names[0].isidentifier():
        fields.wrong("architectures", names, "the name of a class")
        return None
    return names[0]


def quantization(config: Mapping[str, Any]) -> str | None:
    """What the weights are, in the registry's words: fp8, int4, nvfp4; None: not quantized."""
    settings = inner(config, "quantization_config") or inner(
        inner(config, "text_config"), "quantization_config"
    )
    if not settings:
        return None
    method = str(settings.get("quant_method", "")).lower()
    if method == "compressed-tensors":
        name = _compressed(settings)
    elif method in ("awq", "gptq"):
        name = f"int{settings.get('bits')}"
    else:
        name = str(settings.get("quant_algo") or method).lower()
    return name if _WORD.fullmatch(name) else "quantized"


def _compressed(settings: Mapping[str, Any]) -> str:
    if str(settings.get("format")).startswith("nvfp4"):
        return "nvfp4"
    groups = inner(settings, "config_groups")
    weights = next((inner(g, "weights") for g in groups.values() if isinstance(g, Mapping)), {})
    kind = "fp" if weights.get("type") == "float" else "int"
    return f"{kind}{weights.get('num_bits')}"


def attention(fields: Fields, kinds: Sequence[str]) -> list[Layers]:
    """Layers that keep keys and values, or MLA's latent in their place, by kind; full ones first.

    Gemma 4 has other KV heads in its full layers than in its sliding ones.
    """
    heads = fields.count("num_attention_heads")
    latent = fields.optional_count("kv_lora_rank")
    if latent is not None:
        rotary = fields.count("qk_rope_head_dim")
        full = Layers(kind="mla", count=1, heads=heads, latent_dim=latent + rotary)
        if "sliding" in kinds:
            fields.wrong("layer_types", "sliding", "beside kv_lora_rank: nothing here reads that")
        return counted([full], {"mla": kinds.count("full")})
    kv_heads = fields.count("num_key_value_heads", default=heads, why="num_attention_heads")
    if heads % kv_heads:
        fields.wrong("num_key_value_heads", kv_heads, f"a divisor of num_attention_heads, {heads}")
    why = "hidden_size / num_attention_heads"
    dim = fields.count("head_dim", default=max(1, fields.count("hidden_size") // heads), why=why)
    full = Layers(
        kind="full", count=1, heads=heads,
        kv_heads=fields.optional_count("num_global_key_value_heads") or kv_heads,
        head_dim=fields.optional_count("global_head_dim") or dim,
    )  # fmt: skip
    if "sliding" not in kinds:
        return counted([full], {"full": kinds.count("full")})
    window = fields.count("sliding_window", "swa_window_size")
    sliding = Layers(
        kind="sliding", count=1, heads=heads, kv_heads=kv_heads, head_dim=dim, window=window
    )
    return counted([full, sliding], {kind: kinds.count(kind) for kind in ("full", "sliding")})


def counted(layers: Sequence[Layers], counts: Mapping[str, int]) -> list[Layers]:
    return [
        msgspec.structs.replace(one, count=counts[one.kind]) for one in layers if counts[one.kind]
    ]


def as_gib(size: float) -> float:
    """Bytes in GiB, to the hundredth; what is tiny to three digits."""
    gib = size / 2**30
    return round(gib, 2) if gib >= 0.1 else float(f"{gib:.3g}")
