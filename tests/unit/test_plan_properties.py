"""Any registry that validates renders a plan or refuses with a reason; nothing else happens."""

from __future__ import annotations

import random

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dflash_deploy.errors import DFlashError
from dflash_deploy.hardware import Card, Hardware
from dflash_deploy.plan import make_plan
from dflash_deploy.registry import Entry, Registry, load
from dflash_deploy.request import Request
from dflash_deploy.schema import Draft, Layers, Model, Recipe, When
from dflash_deploy.validate import problems

SHIPPED = load(user=False)
FIELDS = {
    Draft: ["kind", "format", "block_size", "architecture", "layers", "causal", "context", "thinking", "quantization", "unservable", "gated", "terms"],
    Recipe: ["when", "block_size", "attention_backend", "draft_attention_backend", "kv_dtype", "max_concurrency", "memory_fraction", "flags"],
}  # fmt: skip
WORDS = st.sampled_from(
    ["triton", "fa3", "fa4", "flash_attn", "TRITON_ATTN", "nope", "DFlashDraftModel", "DFlash2DraftModel"]
)  # fmt: skip
LAYERS = st.builds(
    Layers, kind=st.sampled_from(["full", "sliding", "mla", "linear"]), count=st.integers(1, 9),
    heads=st.none() | st.integers(1, 65), kv_heads=st.none() | st.integers(1, 9),
)  # fmt: skip
VALUES = {
    "kind": st.sampled_from(["dflash", "dflash2"]), "format": st.sampled_from(["z-lab", "speculators"]),
    "block_size": st.none() | st.integers(2, 40), "architecture": WORDS,
    "layers": st.lists(LAYERS, max_size=3), "causal": st.none() | st.booleans(),
    "context": st.none() | st.integers(1, 10**6), "thinking": st.sampled_from(["on", "off", None]),
    "quantization": st.none() | st.just("w4a16"), "unservable": st.none() | st.just("no"),
    "gated": st.none() | st.booleans(), "terms": st.none() | st.just("research alone"),
    "attention_backend": st.none() | WORDS, "draft_attention_backend": st.none() | WORDS,
    "kv_dtype": st.sampled_from([None, "auto", "bf16", "fp8"]),
    "max_concurrency": st.none() | st.integers(1, 999), "memory_fraction": st.none() | st.just(0.8),
    "flags": st.lists(st.sampled_from(["--dtype=bfloat16", "--page-size=1", "--enable-lora"]), max_size=2),
    "when": st.builds(
        When, engine=st.sampled_from(["vllm", "sglang", "transformers", None]),
        architecture=st.none() | st.just(["hopper"]),
        concurrency_at_most=st.none() | st.integers(1, 99),
        kv_dtype=st.sampled_from([None, "fp8"]), thinking=st.sampled_from([None, "on", "off"]),
    ),
}  # fmt: skip


@st.composite
def registries(draw) -> Registry:
    """The shipped registry with a few values of one entry changed."""
    entry = draw(st.sampled_from(list(SHIPPED.entries.values())))
    model: Model = entry.model
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from([Draft, Recipe]))
        part = "drafts" if kind is Draft else "recipes"
        items = list(getattr(model, part))
        if not items:
            continue
        at = draw(st.integers(0, len(items) - 1))
        field = draw(st.sampled_from(FIELDS[kind]))
        items[at] = msgspec.structs.replace(items[at], **{field: draw(VALUES[field])})
        model = msgspec.structs.replace(model, **{part: items})
    changed = Entry(entry.id, model, entry.files, draw(st.sampled_from(["shipped", "user"])))
    return Registry(SHIPPED.entries | {entry.id: changed}, SHIPPED.engines, SHIPPED.gpus,
                    SHIPPED.names | {"this": entry.id})  # fmt: skip


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(registry=registries(), seed=st.integers(0, 10**6))
def test_a_valid_registry_renders_or_refuses(registry: Registry, seed: int) -> None:
    entry = registry.find("this")
    valid = not problems([entry], registry.engines)
    chance = random.Random(seed)
    gpu = chance.choice([None, *registry.gpus])
    hardware = (
        Hardware((Card(gpu.id, gpu.architecture, gpu.memory_gib),) * 8, "given")
        if gpu
        else Hardware()
    )
    for name, engine in registry.engines.items():
        request = Request(
            model=chance.choice([entry.id, *(draft.id for draft in entry.model.drafts)]), engine=name,
            engine_version=chance.choice(engine.releases).version,
            concurrency=chance.choice([None, 1, 7, 64, 1000]), kv_dtype=chance.choice(["auto", "fp8"]),
            context=chance.choice([None, 4096]), trust_remote_code=True,
        )  # fmt: skip
        try:
            plan = make_plan(registry, request, hardware)
        except DFlashError as error:
            assert error.message
            assert error.exit_code in (2, 3, 4, 5)
            continue
        assert valid or entry.layer == "shipped"  # a foreign entry with a problem is never used
        assert all(isinstance(word, str) and word for word in plan.argv)
        assert "--trust-remote-code" not in plan.argv or entry.target.remote_code == "required"
