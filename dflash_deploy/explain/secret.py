"""What of a published command is said again, and what never is: keys, tokens, escapes."""

from __future__ import annotations

import re

from dflash_deploy.secret_keys import without_secrets

_OPTION = re.compile(
    r"(?:^|-)(?:api-?key|secret|password|passwd|(?:api|hf|auth|access|bearer)-token)$|^--token$"
)
_VARIABLE = re.compile(r"(?:^|_)(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$")
_KEY = re.compile(r"\b(?:hf_|sk-|gh[po]_|github_pat_|AKIA)[\w-]{8,}")
_LOGIN = re.compile(r"(?<=//)[^/@\s]+@")
_LONGEST = 400


def is_secret_option(flag: str) -> bool:
    """`--api-key`, `--hf-token`: not `--ssl-keyfile`, `--tokenizer` or `--time-to-first-token`."""
    return bool(_OPTION.search(flag.replace("_", "-").lower()))


def is_secret_variable(name: str) -> bool:
    """`HF_TOKEN`: not `TOKENIZERS_PARALLELISM`."""
    return bool(_VARIABLE.search(name))


def shown(text: str) -> str:
    """A piece of somebody's command, fit for a terminal: one line, no key, no control character."""
    masked = _LOGIN.sub("...@", _KEY.sub("...", without_secrets(text)))
    plain = "".join(c if c.isprintable() else " " if c in "\n\t" else "?" for c in masked)
    return plain if len(plain) <= _LONGEST else plain[:_LONGEST] + "..."


def may_be_repeated(word: str) -> bool:
    """Whether a word can stand in the right command as it is."""
    legible = all(c.isprintable() or c in "\n\t" for c in word)
    return (
        legible
        and without_secrets(word) == word
        and not _KEY.search(word)
        and not _LOGIN.search(word)
    )
