import pytest
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from dflash_deploy.server.spelling import BYTE_OF, Spelling

VOCABULARY = {"<unk>": 0, "\u2581caf": 1, "<0xC3>": 2, "\u0120caf": 3, "\u00c3": 4, "<end>": 5}


def tokenizer(decoder):
    backend = Tokenizer(models.WordLevel(VOCABULARY, unk_token="<unk>"))
    backend.decoder = decoder
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>")


@pytest.fixture(scope="module")
def byte_level():
    return tokenizer(decoders.ByteLevel())


@pytest.fixture(scope="module")
def sentence_piece():
    return tokenizer(decoders.Metaspace())


def test_every_byte_has_one_character():
    assert sorted(BYTE_OF.values()) == list(range(256))
    assert (BYTE_OF["\u0120"], BYTE_OF["\u010a"], BYTE_OF["a"]) == (0x20, 0x0A, 0x61)


def test_a_byte_level_token_may_be_half_a_character(byte_level):
    assert [Spelling(byte_level)(i) for i in (3, 4)] == [b" caf", b"\xc3"]


def test_a_sentence_piece_is_its_space_or_its_byte(sentence_piece):
    assert [Spelling(sentence_piece)(i) for i in (1, 2)] == [b" caf", b"\xc3"]


def test_a_special_token_is_its_name_and_padding_is_nothing(byte_level):
    assert (Spelling(byte_level)(5), Spelling(byte_level)(99)) == (b"<end>", b"")


def test_what_a_tokenizer_builds_anew_each_time_is_asked_once(byte_level):
    asked = []

    class Slow(PreTrainedTokenizerFast):
        @property
        def added_tokens_decoder(self):
            asked.append("added")
            return super().added_tokens_decoder

        def __len__(self):
            asked.append("size")
            return super().__len__()

    slow = Slow(tokenizer_object=byte_level.backend_tokenizer, eos_token="<end>")
    asked.clear()
    spell = Spelling(slow)
    assert [spell(token) for token in (3, 3, 4, 5)] == [b" caf", b" caf", b"\xc3", b"<end>"]
    assert sorted(asked) == ["added", "size"]
