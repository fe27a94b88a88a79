"""Errors speak in one voice: a lower-case start unless it is a name, and no full stop."""

import ast
from pathlib import Path

import pytest

from dflash_deploy import speculative

FILES = sorted(Path(speculative.__file__).parent.glob("*.py"))
ERRORS = {"DownloadError", "Unsupported", "UsageError", "ValueError", "TypeError"}


def parts(node):
    """The constant texts of a string, its fields as empty ones."""
    values = node.values if isinstance(node, ast.JoinedStr) else [node]
    return [value.value if isinstance(value, ast.Constant) else "" for value in values]


def texts(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ERRORS:
            said = [*node.args[:1], *(word.value for word in node.keywords if word.arg == "hint")]
            yield from (
                parts(text) for text in said if isinstance(text, ast.JoinedStr | ast.Constant)
            )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_messages_and_hints_are_in_the_projects_style(path):
    for text in texts(path):
        assert not text[0][:1].isupper(), text
        assert not text[-1].endswith("."), text


def test_there_are_messages_to_look_at():
    assert sum(len(list(texts(path))) for path in FILES) > 20
