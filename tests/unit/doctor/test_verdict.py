"""What can be served, whether anything blocks it, and that one silent part hides no other."""

from __future__ import annotations

import threading

import pytest

from dflash_deploy.doctor.docker import Docker
from dflash_deploy.doctor.engines import Found
from dflash_deploy.doctor.examine import Facts, judge
from dflash_deploy.doctor.finding import Finding, plain
from dflash_deploy.doctor.gather import Answer, gather
from dflash_deploy.doctor.hub import Hub
from dflash_deploy.doctor.variables import findings as variables
from dflash_deploy.doctor.verdict import verdict, ways
from dflash_deploy.hardware import Card, Hardware
from dflash_deploy.registry import load

KNOWN = load(user=False)
ENGINES = KNOWN.engines
CARDS = Hardware((Card("H100", "hopper", 80),), "found", cuda="13.0")
NONE = Hardware()
VLLM = Found("vllm", "/bin/vllm", "0.33.0")
SGLANG = Found("sglang", "/bin/sglang", "0.5.23")
EMBEDDED = Found("transformers", "/bin/python", "0.1.0")
DOCKER = Docker("answers", "unix:///d", "28", "Ubuntu", "runtime")


@pytest.mark.parametrize(
    ("hardware", "found", "docker", "expected"),
    [
        (CARDS, [VLLM, SGLANG, EMBEDDED], DOCKER, ("vllm", "sglang", "docker", "transformers")),
        (CARDS, [SGLANG], None, ("sglang",)),
        (CARDS, [], DOCKER, ("docker",)),
        (CARDS, [], Docker("answers", "unix:///d"), ()),
        (NONE, [VLLM, EMBEDDED], DOCKER, ("transformers",)),
        (None, [VLLM], DOCKER, ()),
    ],
)
def test_the_ways_to_serve(hardware, found, docker, expected):
    assert ways(hardware, found, docker, ENGINES) == expected


def test_a_driver_of_cuda_12_runs_images_of_cuda_12_and_no_binaries_of_13():
    old = Hardware(CARDS.cards, "found", cuda="12.2")
    assert ways(old, [VLLM], DOCKER, ENGINES) == ("docker",)
    older = Hardware(CARDS.cards, "found", cuda="11.4")
    assert ways(older, [VLLM], DOCKER, ENGINES) == ()


def test_ready_says_for_what_and_on_which_cards():
    fine = [Finding("gpu", "ok", "a card"), Finding("hub", "note", "no token")]
    found = verdict(fine, ("vllm", "docker", "transformers"), CARDS)
    assert (found.ready, found.exit_code) == (True, 0)
    assert found.text == (
        "ready for vLLM on 1 x H100; also the engines' images in Docker and the embedded engine"
    )
    assert found.next == "dflash list, then dflash serve MODEL --engine vllm"
    assert verdict(fine, ("docker",), CARDS).next == "dflash list, then dflash plan MODEL"
    laptop = verdict(fine, ("transformers",), NONE)
    assert (laptop.ready, laptop.next) == (True, "dflash chat smollm2-135m")


@pytest.mark.parametrize(
    ("area", "code"), [("gpu", 4), ("limits", 4), ("engines", 5), ("hub", 6), ("disk", 6)]
)
def test_the_first_problem_gives_the_code_and_the_next_command(area, code):
    found = verdict(
        [Finding("gpu", "note", "x"), Finding(area, "problem", "broken", "mend it"),
         Finding("disk", "problem", "full", "empty it")], ("vllm",), CARDS,
    )  # fmt: skip
    assert (found.ready, found.exit_code, found.next) == (False, code, "mend it")
    assert found.text == "not ready: broken (and 1 more)"


def test_without_an_engine_for_the_cards_the_cpu_still_serves():
    found = verdict([Finding("engines", "problem", "no vLLM")], ("transformers",), CARDS)
    assert found.exit_code == 5
    assert found.text.endswith("what works on the CPU: dflash chat smollm2-135m")


def test_what_hangs_and_what_breaks_hide_nothing():
    never = threading.Event()

    def broken():
        raise RuntimeError("no\x1bsuch thing")

    found = gather({"hangs": never.wait, "broken": broken, "fine": lambda: 7}, deadline=0.2)
    never.set()
    assert found["fine"] == Answer(7)
    assert found["hangs"].why == "no answer within 0.2 s"
    assert found["broken"].why == "RuntimeError: no\x1bsuch thing"
    assert plain(found["broken"].why) == "RuntimeError: no such thing"


def test_a_page_is_made_of_silence_too():
    late = Answer(why="no answer within 5 s")
    names = ("vllm", "sglang", "transformers")
    facts = Facts(
        hardware=late, engines=dict.fromkeys(names, late), docker=late, hub=late, disk=late,
        caches=late, limits=late, command=late,
    )  # fmt: skip
    found = judge(facts, KNOWN, {"HF_ENDPOINT": "https://me:secret@mirror"})
    assert found.verdict.exit_code == 4
    assert found.findings[0].text == "the NVIDIA driver does not answer: no answer within 5 s"
    texts = " ".join(each.text for each in found.findings)
    assert "https://mirror cannot be reached: no answer within 5 s" in texts
    assert "secret" not in texts


def test_silent_engines_leave_nothing_to_serve_with():
    late = Answer(why="no answer within 5 s")
    facts = Facts(
        hardware=Answer(NONE), engines={"transformers": late}, docker=late,
        hub=Answer(Hub("https://hub.test", "answers")), disk=late, caches=late, limits=late,
        command=late,
    )  # fmt: skip
    found = judge(facts, KNOWN, {})
    assert (found.verdict.exit_code, found.verdict.text) == (5, "not ready: no engine was found")


def test_dead_switches_are_judged_for_the_release_that_is_here():
    switch = {"SGLANG_ENABLE_SPEC_V2": "1", "PATH": "/bin"}
    (said,) = variables(switch, ENGINES, [SGLANG])
    assert (said.state, said.remedy) == ("note", "unset SGLANG_ENABLE_SPEC_V2")
    assert said.text.startswith("SGLANG_ENABLE_SPEC_V2 is set. SGLang: does nothing")
    (fine,) = variables({"SGLANG_ENABLE_SPEC_V2": ""}, ENGINES, [])
    assert fine.state == "ok"
