import pytest
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from dflash_deploy.errors import Unsupported
from dflash_deploy.speculative.rope import Rope, interleave, rotate

CPU = torch.device("cpu")
TYPES = {
    "default": {},
    "linear": {"factor": 4.0},
    "llama3": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 64},
}


def config(kind, **settings):
    return LlamaConfig(
        hidden_size=32,
        num_attention_heads=4,
        head_dim=8,
        max_position_embeddings=256,
        rope_parameters={"rope_type": kind, "rope_theta": 10000.0, **settings},
    )


@pytest.mark.parametrize("kind", TYPES)
def test_products_of_queries_and_keys_are_those_of_transformers(kind):
    torch.manual_seed(0)
    settings = config(kind, **TYPES[kind])
    query, key = torch.randn(6, 4, 8), torch.randn(6, 4, 8)
    theirs = LlamaRotaryEmbedding(settings)
    cos, sin = theirs(query, torch.arange(100, 106)[None])
    wanted_query, wanted_key = apply_rotary_pos_emb(
        query.transpose(0, 1)[None], key.transpose(0, 1)[None], cos, sin
    )
    angles = Rope(settings).angles(100, 106, CPU)
    paired = [
        rotate(
            interleave(x.permute(1, 2, 0).flatten(0, 1), 8)
            .view(4, 8, 6)
            .permute(2, 0, 1)
            .contiguous(),
            angles,
        )
        for x in (query, key)
    ]
    found = torch.einsum("qhd,khd->hqk", *paired)
    torch.testing.assert_close(found, (wanted_query @ wanted_key.mT)[0], rtol=1e-4, atol=1e-4)


def test_the_table_grows_and_stays_the_same():
    rope = Rope(config("default"))
    first = rope.angles(0, 10, CPU).clone()
    rope.angles(0, 5000, CPU)
    torch.testing.assert_close(rope.angles(0, 10, CPU), first)


def test_a_type_that_depends_on_the_length_is_refused():
    with pytest.raises(Unsupported, match="dynamic"):
        Rope(config("dynamic", factor=2.0))
