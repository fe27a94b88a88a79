"""The bytes of one token, which its text alone does not tell: it may be half a character."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def _printable() -> dict[str, int]:
    """Byte-level vocabularies (GPT-2's scheme): a character for each byte, printable as it is,
    the others from U+0100 on.
    """
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + i): b for i, b in enumerate(others)}


BYTE_OF = _printable()


class Spelling:
    """A tokenizer's tokens as bytes.

    What is asked of the tokenizer is asked once: a fast one builds its added tokens and its
    vocabulary's size anew each time, which takes longer than a decoding step.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._pieces: Callable[[int], Any] = tokenizer.convert_ids_to_tokens
        self._size = len(tokenizer)
        self._added = frozenset(tokenizer.added_tokens_decoder)
        self._byte_level = _byte_level(tokenizer)

    def __call__(self, token: int) -> bytes:
        """Empty for an id that the tokenizer does not know: a model's vocabulary may be padded."""
        piece = self._pieces(token) if token < self._size else None
        if piece is None:
            return b""
        if token in self._added:
            return str(piece).encode()
        if found := _BYTE.fullmatch(piece):
            return bytes([int(found[1], 16)])
        if self._byte_level:
            return bytes(BYTE_OF[c] for c in piece if c in BYTE_OF)
        return str(piece).replace("\u2581", " ").encode()  # SentencePiece's mark of a space


def _byte_level(tokenizer: Any) -> bool:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return "ByteLevel" in repr(getattr(backend, "decoder", None))
