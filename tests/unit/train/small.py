"""A random Llama with a handful of answers it wrote, and a recipe of a few steps."""

from __future__ import annotations

import torch

from dflash_deploy.speculative.config import parse_config
from dflash_deploy.train.blocks import Answer
from dflash_deploy.train.frozen import Frozen
from dflash_deploy.train.recipe import Recipe, taps
from dflash_deploy.train.save import config_json
from tests.unit.speculative import tiny

MASK = 3
TEMPLATE = (
    "{% for m in messages %}<|turn|>{{ m.role }} {{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|turn|>assistant {% endif %}"
)


def recipe(**changed) -> Recipe:
    values = {
        "target": "org/tiny", "model": "org/tiny", "draft": "me/tiny-DFlash", "layers": 2,
        "block_size": 4, "steps": 20, "batch": 4, "anchors": 8, "length": 48,
        "learning_rate": 0.02, "seed": 5,
    }  # fmt: skip
    return Recipe(**values | changed)


def config(model, plan: Recipe):
    return parse_config(config_json(model.config, plan, MASK), "config.json")


def frozen(model) -> Frozen:
    return Frozen(model, taps(model.config.num_hidden_layers))


def answers(model, count: int = 8, length: int = 40) -> list[Answer]:
    chance = torch.Generator().manual_seed(0)
    made = []
    for index in range(count):
        prompt = torch.randint(4, 40, (3 + index % 3,), generator=chance).tolist()
        answer = tiny.generated(model, prompt, length)
        made.append(Answer(index, prompt + answer, [0] * len(prompt) + [1] * len(answer)))
    return made


def saved_target(folder, *, template=TEMPLATE, unused="<mask>"):
    """A random Llama of about a million weights with a tokenizer of bytes, as a hub has it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    names = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "<|turn|>", "<|end|>"]
    names += [unused] if unused else []
    bytes_alone = Tokenizer(models.BPE(vocab={n: i for i, n in enumerate(names)}, merges=[]))
    bytes_alone.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_alone.decoder = decoders.ByteLevel()
    more = ["<|turn|>", unused] if unused else ["<|turn|>"]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bytes_alone, eos_token="<|end|>", additional_special_tokens=more
    )
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(names), hidden_size=128, intermediate_size=256, num_hidden_layers=6,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
        bos_token_id=None, eos_token_id=names.index("<|end|>"), pad_token_id=None,
        tie_word_embeddings=True,
    )  # fmt: skip
    torch.manual_seed(0)
    model = LlamaForCausalLM(config)
    tiny.spread(model)
    model.save_pretrained(folder)
    return folder


def stirred(tensors, seed: int = 3):
    """What begins as nothing or as ones, made something."""
    chance = torch.Generator().manual_seed(seed)
    for name, tensor in tensors.items():
        if "conv" in name or "successor" in name:
            tensor.add_(torch.randn(tensor.shape, generator=chance), alpha=0.3)
    return tensors
