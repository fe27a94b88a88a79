"""A draft's config.json as a registry draft, in both layouts it comes in. Pure.

The z-lab layout has the layer stack at the top level and what is particular to DFlash in
`dflash_config`; the speculators layout has the layer stack in `transformer_layer_config`, and
counts the layers of the target from 1.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dflash_deploy.errors import Unsupported
from dflash_deploy.model_config import (
    HUB_ID,
    LARGEST,
    MOST_LAYERS,
    Fields,
    Stored,
    architecture,
    as_gib,
    attention,
    inner,
    shown,
)
from dflash_deploy.model_config import quantization as quantized_as
from dflash_deploy.schema import Draft, Kind, Layers, Target

SPECULATORS: dict[str, str] = {"dflash": "DFlashDraftModel", "dflash2": "DFlash2DraftModel"}
"""The class vLLM loads for a `speculators_model_type`."""
SPECULATORS_BLOCK = 8
Layout = Literal["z-lab", "speculators"]
FORMULA_HOLDS = ("DFlashDraftModel", "DFlash2DraftModel", "MuseGlimmerAssistantModel")
"""Classes without further tensors: others refine the draft's tokens with modules of their own."""
MENDED = "mend it in a copy of the draft, and add that folder"
OTHERS = "dflash list"
GUESS = (
    "without target_layer_ids SGLang guesses the layers by a formula, and says nothing when it is"
    " wrong: sgl-project/sglang#37475"
)
PADDING = 0.01
"""Of a vocabulary, at most: rows that only fill it up, which a draft may leave out. gpt-oss has
1069 such rows of 201088."""
NOT_EVERY_LAYER = ("NemotronH",)
"""Targets that count layers without attention or state, which `Target.layers` does not list."""


@dataclass(frozen=True)
class ReadDraft:
    """A draft, what it asks of its target, and where each value was found."""

    draft: Draft
    reads: int
    """The size of the hidden states it reads."""
    vocab_size: int
    """Rows of its embedding: the target's tokens, or as many of them as it knows."""
    target_layers: int | None
    """How many layers its config says the target has."""
    verifier: str | None
    """The target that its config names."""
    origins: Mapping[str, str]
    own_head: bool = False
    """Whether it brings a head of its own, as one that proposes from fewer tokens must."""


@dataclass(frozen=True)
class Sizes:
    """What the count of parameters follows from. Names as in config.json."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    taps: int
    """Layers of the target that it reads."""
    reads: int
    vocab: int
    conv: tuple[int, int] | None = None
    """DFlash 2: kernel and group size."""
    rank: int | None = None
    """DFlash 2: of the candidate selector."""


def read_draft(
    config: Mapping[str, Any], draft_id: str, classes: Collection[str], *,
    revision: str | None = None, stored: Stored | None = None,
) -> ReadDraft:  # fmt: skip
    """What a config.json says of a draft. `classes`: those that some engine loads.

    Raises Unsupported for what is no DFlash draft, and for fields that are missing or wrong, all
    of them at once.
    """
    layout, fields = laid_out(config, draft_id)
    name = draft_class(config, fields, classes)
    refuse_variants(fields)
    kinds = layer_kinds(fields)
    layers = attention(fields, kinds)
    taps = target_layers(fields, layout)
    sizes = measured(fields, name, len(kinds), layers, taps)
    quantization = quantized_as(config)
    parameters, gib = size(fields, name, sizes, stored, quantization)
    draft = Draft(
        id=draft_id, kind=kind(name), format=layout, block_size=block_size(fields, layout),
        revision=revision, architecture=name, layers=layers,
        causal=causality(fields, layout, kinds), hidden_size=sizes.hidden, target_layer_ids=taps,
        mask_token_id=mask_token(fields),
        context=fields.optional_count("max_position_embeddings"), trained_context=None,
        thinking=None, parameters=parameters, gib=gib, quantization=quantization, licence=None,
        gated=None,
    )  # fmt: skip
    trained_for = fields.optional_count("num_target_layers")
    no_taps = {"target_layer_ids", "aux_hidden_state_layer_ids"} & {*fields.missing}
    fields.refuse(hint=MENDED, detail=GUESS if no_taps else None)
    return ReadDraft(
        draft, reads=sizes.reads, vocab_size=sizes.vocab, target_layers=trained_for,
        verifier=verifier(config), origins=fields.origins, own_head=own_head(fields, sizes),
    )  # fmt: skip


def laid_out(config: Mapping[str, Any], draft_id: str) -> tuple[Layout, Fields]:
    """Which of the two layouts it is, and where each keeps its fields."""
    if "speculators_model_type" in config:
        name = "transformer_layer_config"
        return "speculators", Fields(draft_id, ("", config), (f"{name}.", inner(config, name)))
    name = "dflash_config"
    return "z-lab", Fields(draft_id, (f"{name}.", inner(config, name)), ("", config))


def draft_class(config: Mapping[str, Any], fields: Fields, classes: Collection[str]) -> str:
    """The class an engine loads; for the speculators layout the one that vLLM makes of it."""
    known = ", ".join(sorted(classes))
    method = config.get("speculators_model_type")
    if method is not None and (not isinstance(method, str) or method not in SPECULATORS):
        raise Unsupported(
            f"{fields.name} is a speculator of type {shown(method)}, not dflash or dflash2",
            hint=OTHERS,
        )
    name = architecture(fields)
    if method is not None and name not in classes:
        return SPECULATORS[method]  # older ones name the class they were trained with
    if name is None:
        fields.refuse(hint=MENDED, detail=f"classes of drafts known here: {known}")
        raise AssertionError("`architectures` is missing, and that was refused")
    if name not in classes:
        raise Unsupported(
            f"{fields.name} is of class `{name}`, which is no DFlash draft known here: {known}",
            hint="a DFlash draft's hub id: a target goes to --target",
        )
    return name


def kind(name: str) -> Kind:
    return "dflash2" if "DFlash2" in name else "dflash"


def refuse_variants(fields: Fields) -> None:
    """Other methods in the same layout: as DFlash they start, and next to nothing is accepted."""
    projector = fields.get("projector_type")
    if projector not in (None, "dflash"):
        raise Unsupported(
            f"{fields.name} has a projector of type {shown(projector)}: it is no DFlash draft",
            hint=OTHERS,
        )
    if fields.flag("sample_from_anchor"):
        raise Unsupported(
            f"{fields.name} samples from its anchor, as DSpark drafts do: it is no DFlash draft",
            hint=OTHERS,
            detail="vLLM 0.33.0 v1/worker/gpu/spec_decode/dflash/speculator.py refuses it",
        )


def layer_kinds(fields: Fields) -> list[str]:
    """`full` or `sliding`, one a layer. `use_swa` makes all slide; nothing said makes all full."""
    number = fields.count("num_hidden_layers", most=MOST_LAYERS)
    if fields.flag("use_swa"):
        fields.origins["layers"] = fields.origins["use_swa"]
        return ["sliding"] * number
    names = fields.words("layer_types")
    if names is None:
        fields.origins["layers"] = "num_hidden_layers; no layer_types, so full attention"
        return ["full"] * number
    known = {"full_attention": "full", "sliding_attention": "sliding"}
    if len(names) != number or not known.keys() >= set(names):
        wanted = f"{number} entries of full_attention or sliding_attention"
        fields.wrong("layer_types", names, wanted)
        return ["full"]
    fields.origins["layers"] = fields.origins["layer_types"]
    return [known[name] for name in names]


def target_layers(fields: Fields, layout: Layout) -> list[int]:
    """The layers whose outputs it reads, from 0. The speculators layout counts them from 1."""
    name = "target_layer_ids" if layout == "z-lab" else "aux_hidden_state_layer_ids"
    ids = fields.counts(name, least=0 if layout == "z-lab" else 1)
    if len({*ids}) < len(ids):
        fields.wrong(name, ids, "a list in which each layer stands once")
        return []
    if layout == "z-lab":
        return ids
    fields.origins["target_layer_ids"] = "aux_hidden_state_layer_ids, each less 1"
    return [number - 1 for number in ids]


def mask_token(fields: Fields) -> int | None:
    """Its number. SGLang can look a word up with the tokenizer; vLLM cannot."""
    if fields.get("mask_token_id") is None and isinstance(fields.get("mask_token"), str):
        return None
    return fields.count("mask_token_id", least=0, most=tokens(fields) - 1)


def tokens(fields: Fields) -> int:
    """How many it knows at most, where its config says it rightly."""
    said = fields.get("vocab_size")
    return said if type(said) is int and 1 <= said <= LARGEST else LARGEST


def block_size(fields: Fields, layout: Layout) -> int:
    if layout == "speculators":
        why = "the default of the speculators layout"
        return fields.count("block_size", default=SPECULATORS_BLOCK, why=why, least=2)
    return fields.count("block_size", least=2)


def causality(fields: Fields, layout: Layout, kinds: list[str]) -> bool | None:
    """None: as the layers imply, sliding ones looking back alone and full ones both ways."""
    if layout == "z-lab":
        said = fields.flag("is_causal", "causal")
        if said is not None:
            fields.origins["causal"] = fields.origins["is_causal"]
        return said
    both_ways = fields.flag("sliding_window_non_causal")
    if "sliding" not in kinds or both_ways is False:
        return None
    where = fields.origins.get("sliding_window_non_causal", "vLLM's default for sliding layers")
    fields.origins["causal"] = where
    return False


def measured(
    fields: Fields, name: str, number: int, layers: list[Layers], taps: list[int]
) -> Sizes:
    hidden = fields.count("hidden_size")
    first = layers[0] if layers else Layers(kind="full", count=1)
    conv, rank = None, None
    if kind(name) == "dflash2":
        conv = fields.count("conv_kernel_size"), fields.count("conv_group_size")
        rank = fields.count("selector_rank")
        fields.count("selector_top_k")
        if hidden % conv[1]:
            fields.wrong("conv_group_size", conv[1], f"a divisor of hidden_size, {hidden}")
    return Sizes(
        layers=number, hidden=hidden, heads=first.heads or 1, kv_heads=first.kv_heads or 1,
        head_dim=first.head_dim or 1, ffn=fields.count("intermediate_size"), taps=len(taps),
        reads=fields.optional_count("target_hidden_size") or hidden,
        vocab=fields.count("vocab_size"), conv=conv, rank=rank,
    )  # fmt: skip


def parameter_count(sizes: Sizes) -> int:
    """Parameters of a draft without embedding and head, which are the target's.

    L layers, hidden size D, H heads and G KV heads of d, feed-forward F, K layers read of size T:
    L (2 D H d + 2 D G d + 3 D F + 2 D + 2 d) + K T D + 2 D. DFlash 2, with a convolution of k taps
    in groups of g and a selector of rank r over V tokens, adds
    2 L (2 k D + 2 k D^2 / g) + 2 V r + r D.
    Source: the tensors of the published drafts; it gives the published count of those that state
    one (385906176, 1291904512, 1313379584, 1924404480, 2772159744).
    """
    s, width = sizes, sizes.hidden
    layer = (
        2 * width * s.heads * s.head_dim
        + 2 * width * s.kv_heads * s.head_dim
        + 3 * width * s.ffn
        + 2 * width
        + 2 * s.head_dim
    )
    total = s.layers * layer + s.taps * s.reads * width + 2 * width
    if s.conv:
        kernel, group = s.conv
        total += s.layers * 2 * (2 * kernel * width + (2 * kernel * width // group) * width)
    if s.rank:
        total += 2 * s.vocab * s.rank + s.rank * width
    return total


def size(
    fields: Fields, name: str, sizes: Sizes, stored: Stored | None, quantization: str | None
) -> tuple[int | None, float | None]:
    """Parameters and GiB: what the files say, else what follows from the sizes; None: neither."""
    plain = (
        name in FORMULA_HOLDS and not own_head(fields, sizes)
        and fields.get("kv_lora_rank") is None
    )  # fmt: skip
    parameters = stored.parameters if stored and not quantization else None  # packed: not countable
    fields.origins["parameters"] = "the headers of its safetensors"
    if parameters is None and plain:
        parameters = parameter_count(sizes)
        fields.origins["parameters"] = "computed from the sizes in config.json"
    elif parameters is None:
        del fields.origins["parameters"]
    if stored:
        fields.origins["gib"] = "its safetensors"
        return parameters, stored.gib
    if parameters is None or quantization:
        return parameters, None
    fields.origins["gib"] = "its parameters in bf16"
    return parameters, as_gib(parameters * 2)


def own_head(fields: Fields, sizes: Sizes) -> bool:
    """`draft_vocab_size` counts the tokens it proposes from; `d2t` in its weights numbers them."""
    proposed = fields.optional_count("draft_vocab_size", most=tokens(fields))
    return proposed not in (None, sizes.vocab) or bool(fields.flag("has_own_lm_head"))


def verifier(config: Mapping[str, Any]) -> str | None:
    """The target by its hub id; a folder of whoever trained the draft says nothing here."""
    named = inner(inner(config, "speculators_config"), "verifier").get("name_or_path")
    return named if isinstance(named, str) and HUB_ID.fullmatch(named) else None


def mismatches(read: ReadDraft, target: Target, layers: int | None = None) -> list[str]:
    """Why this draft cannot be that target's; what is not known of the target matches.

    `layers`: how many the target has; by default the sum of those that its entry lists.
    """
    if layers is None and not target.architecture.startswith(NOT_EVERY_LAYER):
        layers = sum(group.count for group in target.layers) or None
    found, hidden = [], target.hidden_size
    if hidden and hidden != read.reads:
        found.append(f"it reads hidden states of {read.reads}, the target's are {hidden}")
    if layers and read.target_layers and layers != read.target_layers:
        found.append(f"it was trained for {read.target_layers} layers, the target has {layers}")
    beyond = [tap for tap in read.draft.target_layer_ids or [] if layers and tap >= layers]
    if beyond:
        found.append(f"it reads layer {max(beyond)}, the target's last is {(layers or 0) - 1}")
    vocabulary, mask = target.vocab_size, read.draft.mask_token_id
    if vocabulary and (read.vocab_size > vocabulary or _lacks(read, vocabulary)):
        found.append(f"it knows {read.vocab_size} tokens, the target {vocabulary}")
    if vocabulary and mask is not None and mask >= vocabulary:
        found.append(f"its mask token {mask} is beyond the target's {vocabulary} tokens")
    return found


def _lacks(read: ReadDraft, vocabulary: int) -> bool:
    """Whether it knows too few of the target's tokens.

    DFlash 2 looks every token up in tables of its own, and would read beyond their end. Others
    never propose what they lack, which does no harm where it is padding; more is another model's
    vocabulary. A speculators draft that proposes from fewer tokens has a table of whose they are.
    Source: vLLM 0.33.0 model_executor/models/qwen3_dflash.py and qwen3_dflash2.py, SGLang 0.5.23
    models/dflash.py.
    """
    if read.draft.format == "speculators" and read.own_head:
        return False
    spare = 0 if read.draft.kind == "dflash2" else PADDING * vocabulary
    return vocabulary - read.vocab_size > spare


def remarks(read: ReadDraft, target: Target) -> list[str]:
    """What is unusual in a pair that matches."""
    if target.vocab_size and read.vocab_size < target.vocab_size:
        lacking = f"knows {read.vocab_size} of the target's {target.vocab_size} tokens"
        cost = "vLLM drafts none of the others, which costs acceptance unless they are padding"
        return [f"{read.draft.id} {lacking}: {cost}"]
    return []
