"""Our drafts against the reference implementation, the package `dflash` 0.1.0, as a black box."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import DynamicCache, Qwen3Config

from dflash_deploy.speculative.sampling import Chooser
from dflash_deploy.speculative.types import Sampling
from tests.unit.speculative.tiny import draft_json, draft_model, draft_tensors, target_model

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".contract" / "dflash-0.1.0"
# of dflash/model.py: a cached copy with other contents is fetched again
CONTENT = "f55b7fe0a4c0b3073e0f9cdce547cce29f4b8e2168c4d2818760007c43b7651e"

CONTEXT, ROWS = 23, 4
SLIDING = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 6}
WINDOWS = {
    "layer_types": ["sliding_attention", "sliding_attention"],
    "sliding_window": 6,
    "use_sliding_window": True,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
VARIANTS = {
    "full": {},
    "sliding": {**SLIDING, "use_sliding_window": True},
    "sliding, not causal": {**WINDOWS, "is_causal": False},
    "causal": {"is_causal": True},
    "yarn": {"rope_scaling": YARN},
    "shaped logits": {"dflash": {"output_multiplier": 0.7, "final_logit_softcapping": 5.0}},
    "wider kernel": {"second": True, "dflash": {"conv_kernel_size": 3}},
}


def whole():
    model = FOLDER / "dflash" / "model.py"
    return model.exists() and hashlib.sha256(model.read_bytes()).hexdigest() == CONTENT


@pytest.fixture(scope="session")
def package():
    """The reference, imported from a folder of its own: in our environment it would take `dflash`."""
    if not whole():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
        subprocess.run([*pip, "--target", str(FOLDER), "dflash==0.1.0"], check=True)
    assert whole()
    sys.path.insert(0, str(FOLDER))
    try:
        import dflash

        # its names load late, so they are asked for while the folder is on the path
        assert dflash.DFlashDraftModel
        assert dflash.DFlash2DraftModel
    finally:
        sys.path.remove(str(FOLDER))
    return dflash


def build(package, raw):
    """The same weights in the reference and in ours."""
    config = Qwen3Config(**raw)
    config._attn_implementation = "sdpa"
    name = raw["architectures"][0]
    theirs = getattr(package, name)(config).eval()
    state = {
        # the codebooks are published without the suffix that the reference has in memory
        f"{key}.weight" if key.endswith("codebook") else key: tensor
        for key, tensor in draft_tensors(raw).items()
    }
    theirs.load_state_dict(state, strict=True)
    return theirs, draft_model(raw)


@pytest.fixture(params=[*VARIANTS, *(f"second, {name}" for name in VARIANTS)])
def raw(request):
    name = request.param.removeprefix("second, ")
    settings = VARIANTS[name]
    if name != request.param:
        settings = {**settings, "second": True}
    return draft_json(**settings)


@pytest.fixture
def inputs():
    generator = torch.Generator().manual_seed(3)
    block = torch.randn(ROWS, 32, generator=generator)
    features = torch.randn(CONTEXT, 64, generator=generator)
    head = torch.nn.Linear(32, 40, bias=False)
    torch.nn.init.normal_(head.weight, generator=generator)
    return block, features, head


def their_hidden(model, block, features):
    return model(
        position_ids=torch.arange(CONTEXT + ROWS)[None],
        noise_embedding=block[None],
        target_hidden=features[None],
        past_key_values=DynamicCache(),
        use_cache=True,
    )[0]


def our_hidden(model, block, features):
    cache = model.open(CONTEXT + ROWS)
    for part in features.split(9):
        model.add_context(cache, part)
        cache.length += len(part)
    return model(block, cache)


@torch.inference_mode()
def test_hidden_states_and_logits_are_equal(package, raw, inputs):
    block, features, head = inputs
    theirs, ours = build(package, raw)
    hidden = their_hidden(theirs, block, features)
    found = our_hidden(ours, block, features)
    torch.testing.assert_close(found, hidden, rtol=1e-4, atol=1e-4)
    logits = theirs.compute_logits(hidden[None], head)[0]
    torch.testing.assert_close(ours.shape_logits(head(found)), logits, rtol=1e-4, atol=1e-4)


@torch.inference_mode()
def test_the_path_selector_chooses_alike(package, inputs):
    block, features, head = inputs
    theirs, ours = build(package, draft_json(second=True))
    hidden = our_hidden(ours, block, features)[1:]
    cpu = torch.device("cpu")
    for anchor in range(40):
        tokens, _, _ = theirs.propose(hidden[None], torch.tensor([anchor]), head, 0.0)
        found = ours.propose(hidden, head(hidden), anchor, Chooser(Sampling(9), cpu))
        assert found.tokens.tolist() == tokens[0].tolist()
        _, support, weights = theirs.propose(hidden[None], torch.tensor([anchor]), head, 0.6)
        sampled = ours.propose(hidden, head(hidden), anchor, Chooser(Sampling(9, 0.6), cpu))
        # rows after the first depend on what was drawn before
        wanted = dict(zip(support[0, 0].tolist(), weights[0, 0].tolist(), strict=True))
        got = dict(zip(sampled.support[0].tolist(), sampled.weights[0].tolist(), strict=True))
        assert got == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize("second", [False, True])
def test_whole_answers_are_equal(package, second):
    # five tokens in the vocabulary: a random draft is right now and then
    target = target_model("qwen3", vocab=5)
    theirs, ours = build(package, draft_json(vocab=5, second=second))
    for first in range(5):
        prompt = torch.tensor([[first, 1, 4, 2]])
        with torch.inference_mode():
            wanted = theirs.spec_generate(
                target=target, input_ids=prompt, max_new_tokens=24, stop_token_ids=[]
            )
        found = ours.spec_generate(prompt, 24, target=target, stop_token_ids=[])
        assert found.tolist() == wanted.tolist()
