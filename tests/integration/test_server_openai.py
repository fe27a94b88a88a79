"""The official client against the server: a scripted decoder for its edges, then the demo pair."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from tests.unit.server.fakes import NAMES, ScriptedDecoder, running

HELLO = [{"role": "user", "content": "hello there"}]


@pytest.fixture
def scripted() -> Iterator[OpenAI]:
    with running() as server, OpenAI(base_url=f"{server.url}/v1", api_key="EMPTY") as client:
        yield client


def test_the_client_lists_and_retrieves_models(scripted: OpenAI):
    assert [model.id for model in scripted.models.list()] == list(NAMES)
    assert scripted.models.retrieve(NAMES[0]).id == NAMES[0]


def test_chat_and_completion(scripted: OpenAI):
    chat = scripted.chat.completions.create(model="model", messages=HELLO)
    assert chat.choices[0].message.content == "hello there"
    assert chat.usage.completion_tokens == 12
    completion = scripted.completions.create(model="model", prompt="user: hey")
    assert completion.choices[0].text == "hey"


def test_streams_with_usage(scripted: OpenAI):
    stream = scripted.chat.completions.create(
        model="model", messages=HELLO, stream=True, stream_options={"include_usage": True}
    )
    *chunks, last = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "hello there"
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert last.usage.prompt_tokens == 18
    stream = scripted.completions.create(model="model", prompt="user: hey", stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == "hey"


def test_the_clients_own_stream_helper_understands_the_events(scripted: OpenAI):
    with scripted.chat.completions.stream(model="model", messages=HELLO) as stream:
        assert stream.get_final_completion().choices[0].message.content == "hello there"


def test_errors_become_the_clients_exceptions(scripted: OpenAI):
    create = scripted.chat.completions.create
    with pytest.raises(openai.NotFoundError) as missing:
        create(model="other", messages=HELLO)
    assert (missing.value.code, missing.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.BadRequestError) as long:
        create(model="model", messages=[{"role": "user", "content": "x" * 5000}])
    assert long.value.code == "context_length_exceeded"
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    for refused in ({"n": 2}, {"tools": [tool]}):
        with pytest.raises(openai.BadRequestError) as unsupported:
            create(model="model", messages=HELLO, **refused)
        assert unsupported.value.param == next(iter(refused))


def test_the_key_is_the_clients_api_key():
    with running(api_key="sesame") as server:
        with pytest.raises(openai.AuthenticationError):
            OpenAI(base_url=f"{server.url}/v1", api_key="EMPTY").models.list()
        assert OpenAI(base_url=f"{server.url}/v1", api_key="sesame").models.list().data


def test_the_client_comes_back_when_the_queue_was_full():
    with running(ScriptedDecoder(delay=0.1), max_active=1, max_waiting=0) as server:

        async def both() -> list[str]:
            async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key="EMPTY") as client:
                calls = [
                    client.chat.completions.create(model="model", messages=HELLO) for _ in range(2)
                ]
                return [
                    answer.choices[0].message.content for answer in await asyncio.gather(*calls)
                ]

        assert asyncio.run(both()) == ["hello there"] * 2  # the second one after Retry-After


def test_a_stream_closed_by_the_client_stops_the_work():
    decoder = ScriptedDecoder(lambda prompt, sampling: b"x" * 4000, delay=0.01)
    with running(decoder) as server, OpenAI(base_url=f"{server.url}/v1", api_key="x") as client:
        stream = client.completions.create(model="model", prompt="x", max_tokens=4000, stream=True)
        next(iter(stream))
        stream.close()
        server.wait_until(lambda: decoder.closed != [])
        assert len(decoder.cycles) < 100  # of 1000


# The demo pair, as a user starts it.

CARD_NAMES = ("Qwen/Qwen3-4B", "openai/gpt-oss-20b", "google/gemma-4-31B-it")
QUICKSORT = [{"role": "user", "content": "Write a quicksort in Python."}]


@pytest.fixture(scope="module")
def demo(demo_target: Path, demo_draft: Path) -> Iterator[str]:
    """The address of a server with the demo pair; it has to end well on SIGTERM."""
    argv = [sys.executable, "-m", "dflash_deploy.server", "--port", "0"]
    argv += ["--model", str(demo_target), "--draft", str(demo_draft), "--dtype", "float32"]
    argv += ["--served-model-name", *CARD_NAMES, "--threads", str(min(2, os.cpu_count() or 1))]
    process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    said: list[str] = []
    ready = threading.Event()

    def listen() -> None:
        for line in process.stderr:
            said.append(line.rstrip())
            if line.startswith("ready on"):
                ready.set()
        ready.set()

    listener = threading.Thread(target=listen)
    listener.start()
    try:
        assert ready.wait(120)
        assert [line.split(" ")[:2] for line in said] == [
            ["loading", "target"],
            ["loading", "draft"],
            ["ready", "on"],
        ]
        yield said[-1].removeprefix("ready on ")
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 0
    finally:
        process.kill()
        process.wait()
        listener.join(5)
    assert not any("Traceback" in line for line in said)


@pytest.fixture(scope="module")
def client(demo: str) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{demo}/v1", api_key="EMPTY") as client:
        yield client


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("Qwen/Qwen3-4B", {"extra_body": {"chat_template_kwargs": {"enable_thinking": False}}}),
        ("openai/gpt-oss-20b", {}),
        (
            "google/gemma-4-31B-it",
            {"extra_body": {"chat_template_kwargs": {"enable_thinking": True}}},
        ),
    ],
)
def test_the_calls_on_the_model_cards_run_as_published(client: OpenAI, name, extra):
    """The cards ask for 2048 and 4096 tokens; the demo model ends by itself long before."""
    response = client.chat.completions.create(
        model=name, messages=QUICKSORT, max_tokens=2048, temperature=0.0, **extra
    )
    assert response.choices[0].finish_reason == "stop"
    assert "def quicksort" in response.choices[0].message.content
    assert response.model == name


def greedy(client: OpenAI, **extra):
    return client.chat.completions.create(
        model=CARD_NAMES[0],
        messages=[{"role": "user", "content": "What is the capital of France?"}],
        max_tokens=40,
        temperature=0.0,
        extra_body={"return_token_ids": True, **extra},
    )


def test_speculation_gives_the_tokens_of_plain_decoding_and_says_what_it_saved(client: OpenAI):
    speculative, plain = greedy(client), greedy(client, speculative=False)
    assert speculative.choices[0].token_ids == plain.choices[0].token_ids
    assert speculative.choices[0].message.content == plain.choices[0].message.content
    assert plain.metrics["speculative_decoding"] is None
    saved = speculative.metrics["speculative_decoding"]
    assert saved["mean_acceptance_length"] > 1.5
    committed = 1 + saved["num_spec_steps"] + saved["num_accepted_draft_tokens"]
    assert committed >= speculative.usage.completion_tokens


def test_log_probabilities_are_those_of_plain_decoding(client: OpenAI):
    def told(**extra):
        answer = client.chat.completions.create(
            model=CARD_NAMES[0],
            messages=[{"role": "user", "content": "What is the capital of France?"}],
            max_tokens=24,
            temperature=0.0,
            logprobs=True,
            top_logprobs=3,
            extra_body=extra,
        )
        return answer.choices[0].message.content, answer.choices[0].logprobs.content

    text, entries = told()
    _, plain = told(speculative=False)
    said = b"".join(bytes(entry.bytes) for entry in entries).decode()
    assert said.removesuffix("<|im_end|>") == text
    assert [e.bytes for e in entries] == [e.bytes for e in plain]
    assert [e.logprob for e in entries] == pytest.approx([e.logprob for e in plain], abs=1e-3)
    for entry in entries:
        assert entry.top_logprobs[0].bytes == entry.bytes
        assert entry.top_logprobs[0].logprob == entry.logprob


def test_a_stream_s_steps_add_up_to_what_the_engine_reports(client: OpenAI):
    *chunks, last = client.chat.completions.create(
        model=CARD_NAMES[0],
        messages=[{"role": "user", "content": "Say 'thank you' in Japanese, with an emoji: 🙏"}],
        max_tokens=48,
        temperature=0.0,
        stream=True,
        stream_options={"include_usage": True, "include_dflash": True},
    )
    _, *told = [chunk.choices[0] for chunk in chunks]
    steps = [choice.dflash for choice in told]
    for choice, step in zip(told, steps, strict=True):
        assert "".join(p["text"] for p in step["pieces"]) == (choice.delta.content or "")
        assert [p["from"] for p in step["pieces"]] in (
            [],
            ["draft"],
            ["target"],
            ["draft", "target"],
        )
    saved = last.metrics["speculative_decoding"]
    accepted = [step["accepted"] for step in steps if step["drafted"]]
    histogram = saved["acceptance_histogram"]
    assert [accepted.count(n) for n in range(len(histogram))] == histogram
    assert sum(step["drafted"] for step in steps) == saved["num_draft_tokens"]
    assert sum(step["committed"] for step in steps) == last.usage.completion_tokens
    assert any(accepted)


def test_counters_grow_by_what_the_answer_reports(client: OpenAI, demo: str):
    def counter(name: str) -> float:
        text = httpx.get(f"{demo}/metrics").text
        found = re.search(rf"^vllm:{name}_total{{[^}}]*}} (\S+)$", text, re.MULTILINE)
        return float(found[1])

    names = ("drafts", "draft_tokens", "accepted_tokens")
    before = [counter(f"spec_decode_num_{name}") for name in names]
    saved = greedy(client).metrics["speculative_decoding"]
    grown = [
        counter(f"spec_decode_num_{name}") - then for name, then in zip(names, before, strict=True)
    ]
    keys = ("num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens")
    assert grown == [saved[key] for key in keys]


def test_streams_side_by_side_say_what_each_says_alone(demo: str, client: OpenAI):
    questions = ["Name three colours.", "What is 2 + 2?", "Say hello in French."]

    def ask(question: str) -> dict[str, object]:
        messages = [{"role": "user", "content": question}]
        return {"model": CARD_NAMES[0], "messages": messages, "max_tokens": 24, "temperature": 0}

    alone = [
        client.chat.completions.create(**ask(question)).choices[0].message.content
        for question in questions
    ]

    async def together() -> list[str]:
        async with AsyncOpenAI(base_url=f"{demo}/v1", api_key="EMPTY") as client:

            async def one(question: str) -> str:
                stream = await client.chat.completions.create(**ask(question), stream=True)
                return "".join([c.choices[0].delta.content or "" async for c in stream])

            return await asyncio.gather(*map(one, questions))

    assert asyncio.run(together()) == alone


def test_a_seed_repeats_a_sampled_answer(client: OpenAI):
    def sample(seed: int) -> str:
        answer = client.chat.completions.create(
            model=CARD_NAMES[0], messages=QUICKSORT, max_tokens=24, temperature=1.0, seed=seed
        )
        return answer.choices[0].message.content

    first = sample(7)
    assert sample(7) == first
    assert any(sample(seed) != first for seed in (8, 9, 10))


def test_a_stop_string_ends_the_real_model_too(client: OpenAI):
    whole = greedy(client).choices[0].message.content
    stop = whole[5:9]
    cut = client.chat.completions.create(
        model=CARD_NAMES[0],
        messages=[{"role": "user", "content": "What is the capital of France?"}],
        max_tokens=40,
        temperature=0.0,
        stop=stop,
    )
    assert cut.choices[0].message.content == whole[: whole.index(stop)]
    assert cut.choices[0].finish_reason == "stop"


def test_a_completion_continues_text(client: OpenAI):
    answer = client.completions.create(
        model=CARD_NAMES[0], prompt="Once upon a time,", max_tokens=8, temperature=0.5, seed=1
    )
    assert answer.usage.completion_tokens == 8
    assert answer.choices[0].finish_reason == "length"


def test_a_client_that_leaves_frees_the_decoder(demo: str, client: OpenAI):
    body = {"model": CARD_NAMES[0], "prompt": "Once", "max_tokens": 2000, "ignore_eos": True}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{demo}/v1/completions", json=body, timeout=0.5)
    end = time.monotonic() + 5
    while not re.search(
        r"^vllm:num_requests_running{.*} 0\.0$", httpx.get(f"{demo}/metrics").text, re.MULTILINE
    ):
        assert time.monotonic() < end
        time.sleep(0.02)
