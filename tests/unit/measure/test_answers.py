from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_deploy.measure.answers import boxed, number, result, right, same
from dflash_deploy.measure.workload import load_workload


@pytest.mark.parametrize(
    ("answer", "known"),
    [
        (r"So the answer is \boxed{18}.", "18"),
        (r"First \boxed{3}, then \boxed{18}", "18"),
        (r"\boxed{\$18.00}", "18"),
        (r"\boxed{1,234}", "1234"),
        (r"\boxed{11236}", r"11,\!236"),
        (r"\boxed{2\,x}", "2x"),
        (r"\boxed{\rightarrow}", r"\rightarrow"),
        (r"\boxed{\frac{1}{2}}", r"\dfrac12"),
        (r"\boxed{\frac{3}{4}}", "0.75"),
        (r"\boxed{\left( 3, \frac{\pi}{2} \right)}", r"\left(3,\frac{\pi}{2}\right)"),
        (r"\boxed{\text{Evelyn}}", r"\text{Evelyn}"),
        (r"\boxed{90^\circ}", "90"),
        (r"\boxed{50\%}", "50"),
        (r"\boxed{x \in [-2, 7]}", r"x\in[-2,7]"),
        ("Janet makes $18 every day.", "18"),
        ("It is 7 in the morning, and 12 are left: **12**", "12"),
        ("The total is 1,200 euros.", "1200"),
        ("It falls by -5 degrees.", "-5"),
        ("<think>maybe 4</think>It is 5.", "5"),
        ("maybe 4</think>It is 5.", "5"),
        ("所以他还剩24颗糖。", "24"),
    ],
)
def test_right(answer: str, known: str) -> None:
    assert right(answer, known)


@pytest.mark.parametrize(
    ("answer", "known"),
    [
        (r"\boxed{19}", "18"),
        (r"18 is right, so \boxed{19}", "18"),
        ("", "18"),
        ("I do not know.", "18"),
        ("<think>it is 18", "18"),
        (r"\boxed{\frac{1}{2}}", r"\frac{2}{1}"),
        (r"\boxed{-3}", "3"),
        (r"\boxed{1.8}", "18"),
        (r"\boxed{x+1}", "x+2"),
        ("The year was 18th.", "18"),
        (r"\boxed{1/0}", "0"),
        ("chapter 3", r"\text{Evelyn}"),
    ],
)
def test_wrong(answer: str, known: str) -> None:
    assert not right(answer, known)


def test_a_box_is_read_to_its_own_brace() -> None:
    assert boxed(r"\boxed{\frac{1}{\sqrt{2}}} and so on}") == r"\frac{1}{\sqrt{2}}"
    assert boxed(r"\boxed{3} then \boxed{cut off") == "3"
    assert boxed(r"\boxed{\{1, 2\}}") == r"\{1, 2\}"
    assert boxed("nothing") is None
    assert result("v1.2 of 3 parts") == "3"


@given(st.fractions(), st.fractions())
def test_numbers_are_the_same_by_value_alone(one: Fraction, other: Fraction) -> None:
    assert number(str(one)) == one
    assert same(str(one), str(other)) == (one == other)


@given(st.text())
def test_no_text_is_too_strange(text: str) -> None:
    result(text)
    assert same(text, text)


def test_our_own_known_answers_are_numbers_that_can_be_found() -> None:
    for name in ("math", "long-context", "chinese"):
        for prompt in load_workload(name, limit=None, seed=0)[1]:
            if prompt.answer is not None:
                assert number(prompt.answer) is not None
                assert right(f"It comes to {prompt.answer}.", prompt.answer)
