r"""Whether an answer comes to what is known to be right: the last box, else the last number. Pure.

The cards ask for the final answer within \boxed{}. What is compared is the mathematics that can be
compared safely: the text of LaTeX without its layout, and numbers by value. A right answer written
another way may count as wrong.
"""

from __future__ import annotations

import re
from fractions import Fraction

BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
NUMBER = re.compile(
    r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:\s*/\s*\d+)?(?!\w)", re.ASCII
)
"""ASCII: in Chinese a number stands between letters."""
_THINKING = re.compile(r"<think>.*?</think>", re.DOTALL)
_LAYOUT = (
    (r"\\(?:left|right|displaystyle|limits|quad|qquad)(?![a-zA-Z])|\\[!,;:]", ""),
    (r"\\[dt]frac", r"\\frac"),
    (r"\\(?:text|mathrm|mbox|textbf|mathbf)\s*\{([^{}]*)\}", r"\1"),
    (r"\^\s*\{?\\circ\}?", ""),
    (r"\\(?:%|\$)|[%$]", ""),
    (r"\\ |~|\s+", ""),
    (r"\\frac([0-9])([0-9])", r"\\frac{\1}{\2}"),
    (r"\\sqrt([0-9a-zA-Z])", r"\\sqrt{\1}"),
)


def right(answer: str, known: str) -> bool:
    """Whether the answer's result is the known one."""
    found = result(answer, number=number(known) is not None)
    return found is not None and same(found, known)


def result(answer: str, *, number: bool = True) -> str | None:
    """What an answer says it comes to: its last box, or else its last number. None: nothing.

    `number`: whether a number is looked for where nothing is boxed. What was thought before the
    answer is none; an answer that never got beyond thinking has no result.
    """
    said = _THINKING.sub("", answer)
    if "</think>" in said:
        said = said.rpartition("</think>")[2]
    elif "<think>" in said:
        return None
    box = boxed(said)
    if box is not None:
        return box
    numbers = NUMBER.findall(said) if number else []
    return numbers[-1] if numbers else None


def boxed(text: str) -> str | None:
    r"""The content of the last \boxed{...} that is closed, braces within it included."""
    for start in reversed([match.end() for match in BOX.finditer(text)]):
        depth = 1
        for at in range(start, len(text)):
            depth += {"{": 1, "}": -1}.get(text[at], 0) if text[at - 1] != "\\" else 0
            if depth == 0:
                return text[start:at].strip()
    return None


def same(one: str, other: str) -> bool:
    """Equal as numbers, or else letter by letter without layout."""
    left, right_ = number(one), number(other)
    if left is not None and right_ is not None:
        return left == right_
    return plain(one) == plain(other)


def number(text: str) -> Fraction | None:
    r"""The value of `1,234.50`, `-3/4`, `\frac{3}{4}` or `$12\%$`; None for what is no number."""
    said = plain(text)
    fraction = re.fullmatch(r"([-+]?)\\frac\{(\d+)\}\{(\d+)\}", said)
    if fraction:
        said = f"{fraction[1]}{fraction[2]}/{fraction[3]}"
    if not NUMBER.fullmatch(said):
        return None
    try:
        return Fraction(said.replace(",", ""))
    except (ValueError, ZeroDivisionError):  # 1/0
        return None


def plain(text: str) -> str:
    """LaTeX without what only moves it about: spaces, sizes, signs of money and per cent."""
    said = text.strip().rstrip(".")
    for pattern, instead in _LAYOUT:
        said = re.sub(pattern, instead, said)
    return said
