from __future__ import annotations

import pytest

from dflash_deploy.hub.select import select

SMALL = ["config.json", "generation_config.json", "tokenizer.json", "merges.txt"]


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        pytest.param(
            ["model.safetensors", "pytorch_model.bin", "tf_model.h5", "flax_model.msgpack"],
            ["model.safetensors"], id="no pickles beside safetensors",
        ),
        pytest.param(
            ["original/model.safetensors", "metal/model.bin", "model.safetensors", "onnx/m.onnx"],
            ["model.safetensors"], id="no second copies in folders",
        ),
        pytest.param(
            ["consolidated.safetensors", "model.safetensors", "params.json", "tekken.json"],
            ["model.safetensors", "params.json", "tekken.json"], id="Mistral's two forms",
        ),
        pytest.param(["consolidated.safetensors"], ["consolidated.safetensors"], id="only Mistral's"),
        pytest.param(["pytorch_model.bin", "training_args.bin"], ["pytorch_model.bin"], id="pickles"),
        pytest.param(
            ["model.safetensors", "chat_template.jinja", "additional_chat_templates/rag.jinja",
             "spiece.model", "qwen.tiktoken", "LICENSE", "README.md", "figure.png", "run.py",
             "assets/x.json"],
            ["LICENSE", "additional_chat_templates/rag.jinja", "chat_template.jinja",
             "model.safetensors", "qwen.tiktoken", "spiece.model"], id="templates and tokenizers",
        ),
    ],
)  # fmt: skip
def test_one_set_of_weights_and_what_goes_with_it(names: list[str], wanted: list[str]) -> None:
    assert select([*SMALL, *names], "safetensors", code=False) == (sorted([*SMALL, *wanted]), None)


def test_an_index_decides_which_weights() -> None:
    index = "model.safetensors.index.json"
    names = [
        *SMALL,
        index,
        "model-1.safetensors",
        "extra.safetensors",
        "consolidated.1.safetensors",
    ]
    assert select(names, "safetensors", code=False) == (sorted([*SMALL, index]), index)
    pickles = "pytorch_model.bin.index.json"
    assert select([*SMALL, pickles], "safetensors", code=False)[1] == pickles


def test_code_only_where_it_is_run() -> None:
    names = [*SMALL, "model.safetensors", "modeling_kimi.py", "sub/tool.py"]
    assert not [n for n in select(names, "safetensors", code=False)[0] if n.endswith(".py")]
    assert len([n for n in select(names, "safetensors", code=True)[0] if n.endswith(".py")]) == 2


def test_gguf_is_asked_for_by_its_form() -> None:
    names = [*SMALL, "m.gguf", "model.safetensors"]
    assert select(names, "gguf", code=False)[0] == sorted([*SMALL, "m.gguf"])
