"""The matrices of a target for `kernels.py`, and inputs that its own layers made of a text."""

import pathlib

import torch
from safetensors import safe_open

from dflash_deploy.speculative.load import load_model

ROWS = 48
TEXT = (
    "A windmill turns the wind into work. The sails catch the moving air and turn a shaft; cogs "
    "pass the motion to a heavy stone, which grinds the grain into flour. The miller sets the "
    "sails by the wind: def speed(wind): return 0.6 * wind ** 2 would be too simple, since 12 m/s "
    "may already break a sail."
)
# the products of a layer, joined as the engine joins them
SHAPES = {
    "qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "o": ("self_attn.o_proj",),
    "gate_up": ("mlp.gate_proj", "mlp.up_proj"),
    "down": ("mlp.down_proj",),
}


def matrices(target):
    """[(shape, layer, weight [out, in])] in the order of a forward pass."""
    with safe_open(pathlib.Path(target) / "model.safetensors", "pt") as file:
        names = set(file.keys())
        layer = 0
        while f"model.layers.{layer}.self_attn.q_proj.weight" in names:
            for shape, parts in SHAPES.items():
                tensors = [file.get_tensor(f"model.layers.{layer}.{p}.weight") for p in parts]
                yield shape, layer, torch.cat(tensors).float()
            layer += 1
        tied = "lm_head.weight" not in names
        yield "head", 0, file.get_tensor("model.embed_tokens.weight" if tied else "lm_head.weight")


@torch.inference_mode()
def captured(target):
    """{(shape, layer): input [ROWS, in]} of the products, the first rows of a text left out."""
    from transformers import AutoTokenizer

    model, inputs = load_model(target, dtype="float32"), {}

    def keep(key):
        def hook(_, arguments):
            inputs[key] = arguments[0][0, -ROWS:].clone()

        return hook

    for number, layer in enumerate(model.model.layers):
        for shape, (first, *_) in SHAPES.items():
            layer.get_submodule(first).register_forward_pre_hook(keep((shape, number)))
    model.lm_head.register_forward_pre_hook(keep(("head", 0)))
    ids = AutoTokenizer.from_pretrained(target)(TEXT, return_tensors="pt").input_ids
    if ids.shape[1] < ROWS:
        raise SystemExit(f"the text is {ids.shape[1]} tokens, not {ROWS}")
    model(ids)
    return inputs
