import json

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from dflash_deploy.server.api_error import ApiError
from dflash_deploy.server.text import HubText, SamplingDefaults

TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'developer' %}{{ raise_exception('no developer') }}"
    "{% endif %}<s>{{ m.content }}{% endfor %}{% if loud %}!{% endif %}"
)


@pytest.fixture
def folder(tmp_path):
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: i for i, piece in enumerate(["<s>", "</s>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    fast.chat_template = TEMPLATE
    fast.save_pretrained(tmp_path)
    return tmp_path


def test_text_goes_round_without_special_tokens(folder):
    text = HubText(str(folder), None)
    ids = text.encode("a é , b")
    assert text.decode([*ids, 1]) == "a é , b"
    assert text.vocabulary == 258


def test_a_model_without_a_generation_config_ends_at_its_tokenizers_end(folder):
    text = HubText(str(folder), None)
    assert text.stop_token_ids == {1}
    assert text.defaults == SamplingDefaults(1.0, 1.0, 0)


def test_the_generation_config_adds_ends_and_sampling(folder):
    config = {"eos_token_id": [5, 6], "temperature": 0.6, "top_k": 20, "do_sample": True}
    (folder / "generation_config.json").write_text(json.dumps(config))
    text = HubText(str(folder), None)
    assert text.stop_token_ids == {1, 5, 6}
    assert text.defaults == SamplingDefaults(0.6, 1.0, 20)


def test_the_template_renders_with_options_and_special_tokens_count_once(folder):
    text = HubText(str(folder), None)
    messages = [{"role": "user", "content": "hi"}]
    assert text.encode("hi")[0] == 0
    assert text.encode_chat(messages, {}).count(0) == 1
    assert text.decode(text.encode_chat(messages, {})) == "hi"
    assert text.decode(text.encode_chat(messages, {"loud": True})) == "hi!"


def test_options_that_are_the_servers_are_refused(folder):
    text = HubText(str(folder), None)
    for name in ("chat_template", "tokenize", "tools", "add_generation_prompt"):
        with pytest.raises(ApiError) as caught:
            text.encode_chat([{"role": "user", "content": "hi"}], {name: "x"})
        assert caught.value.param == f"chat_template_kwargs.{name}"


def test_what_the_template_refuses_is_the_clients_error(folder):
    text = HubText(str(folder), None)
    with pytest.raises(ApiError, match="no developer") as caught:
        text.encode_chat([{"role": "developer", "content": "x"}], {})
    assert (caught.value.status, caught.value.param) == (400, "messages")


def test_a_model_without_a_template_points_to_completions(folder):
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(ApiError, match="/v1/completions"):
        HubText(str(folder), None).encode_chat([{"role": "user", "content": "x"}], {})
