"""What argv and the environment tell the server; reading them imports no torch and no HTTP."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from dflash_deploy.errors import UsageError

API_KEY_VARIABLE = "DFLASH_API_KEY"
DEVICES = ("auto", "cpu", "cuda")
DTYPES = ("auto", "float32", "bfloat16", "int8")
LOG_LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True)
class Settings:
    """Every option of the server; the one place where a default is written."""

    model: str
    revision: str | None = None
    draft: str | None = None
    draft_revision: str | None = None
    block_size: int | None = None
    served_model_name: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int = 8000
    api_key: str | None = field(default=None, repr=False)
    device: str = "auto"
    dtype: str = "auto"
    threads: int | None = None
    max_model_len: int | None = None
    max_num_seqs: int = 4
    max_queue: int = 32
    default_chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    log_level: str = "info"

    def __post_init__(self) -> None:
        if self.draft is None and self.block_size is not None:
            raise UsageError("--block-size has no meaning without --draft")
        if self.draft is None and self.draft_revision is not None:
            raise UsageError("--draft-revision has no meaning without --draft")

    @property
    def names(self) -> tuple[str, ...]:
        """The names a request may ask for; the first one is used in metrics."""
        return self.served_model_name or (self.model,)


def parse(argv: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Read argv (default: `sys.argv[1:]`); a wrong one exits 2 with a usage line."""
    parser = _parser()
    given = vars(parser.parse_args(argv))
    given["served_model_name"] = tuple(given["served_model_name"])
    given["api_key"] = given["api_key"] or environ.get(API_KEY_VARIABLE) or None
    try:
        return Settings(**given)
    except UsageError as error:
        parser.error(error.message)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m dflash_deploy.server",
        description="Serve a model, with or without its DFlash draft, on a GPU or the CPU.",
        allow_abbrev=False,
    )
    _add_models(parser)
    _add_http(parser)
    _add_decoding(parser)
    parser.set_defaults(
        **{f.name: f.default for f in fields(Settings) if f.name not in _WITHOUT_PLAIN_DEFAULT},
        served_model_name=(),
        default_chat_template_kwargs={},
    )
    return parser


_WITHOUT_PLAIN_DEFAULT = ("model", "served_model_name", "default_chat_template_kwargs")


def _add_models(parser: argparse.ArgumentParser) -> None:
    models = parser.add_argument_group("models")
    models.add_argument("--model", required=True, metavar="PATH_OR_HUB_ID", help="the target")
    models.add_argument("--revision", help="the target's commit, tag or branch")
    models.add_argument("--draft", metavar="PATH_OR_HUB_ID", help="its DFlash draft")
    models.add_argument("--draft-revision", metavar="REVISION")
    models.add_argument(
        "--block-size", type=_whole(2), metavar="N", help="default: the draft's own"
    )
    models.add_argument("--device", choices=DEVICES, help="default: a GPU if torch sees one")
    models.add_argument(
        "--dtype", choices=DTYPES, help="default: bfloat16 on a GPU, float32 on a CPU"
    )
    models.add_argument("--threads", type=_whole(1), metavar="N", help="default: torch decides")


def _add_http(parser: argparse.ArgumentParser) -> None:
    http = parser.add_argument_group("HTTP")
    http.add_argument("--served-model-name", nargs="+", metavar="NAME", help="default: --model")
    http.add_argument("--host")
    http.add_argument("--port", type=_whole(0, 65535), help="0 takes any free port")
    http.add_argument(
        "--api-key",
        type=_filled,
        metavar="KEY",
        help=f"guards /v1; {API_KEY_VARIABLE} does the same and stays out of the process list",
    )
    http.add_argument("--log-level", choices=LOG_LEVELS)


def _add_decoding(parser: argparse.ArgumentParser) -> None:
    decoding = parser.add_argument_group("decoding")
    decoding.add_argument("--max-model-len", type=_whole(1), metavar="N")
    decoding.add_argument("--max-num-seqs", type=_whole(1), metavar="N", help="decoded together")
    decoding.add_argument("--max-queue", type=_whole(0), metavar="N", help="more get status 429")
    decoding.add_argument("--default-chat-template-kwargs", type=_json_object, metavar="JSON")


def _whole(least: int, most: int | None = None) -> Callable[[str], int]:
    def read(text: str) -> int:
        number = int(text)
        if number < least or (most is not None and number > most):
            upper = "" if most is None else f" and at most {most}"
            raise argparse.ArgumentTypeError(f"{number} is not at least {least}{upper}")
        return number

    read.__name__ = "whole number"  # argparse names the type in its message
    return read


def _filled(text: str) -> str:
    # An unset shell variable must not open a server that was meant to be guarded.
    if not text:
        raise argparse.ArgumentTypeError("the key is empty")
    return text


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("not a JSON object")
    return value
