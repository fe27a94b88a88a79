"""NVML's errors in words, as the real binding raises them."""

from __future__ import annotations

import types

import pynvml
import pytest

from dflash_deploy import nvml
from dflash_deploy.nvml_trouble import TOLD, missing_package, trouble_of


@pytest.mark.parametrize("trouble", [*TOLD.values(), missing_package()])
@pytest.mark.parametrize("driver", [None, "535.183.01"])
def test_messages_are_one_clean_line_with_a_remedy(trouble, driver):
    code = next((code for code, known in TOLD.items() if known is trouble), None)
    told = trouble_of(pynvml.NVMLError(code), driver) if code else trouble
    assert told.message == " ".join(told.message.split())
    assert not told.message.endswith(".")
    assert "{" not in told.message
    assert told.remedy


def test_an_error_without_words_is_named_by_its_class():
    assert trouble_of(OSError(), None).message == "NVML is broken: OSError"


@pytest.fixture
def library(monkeypatch):
    """The real binding on a library that has these functions and answers with these codes."""

    def loaded(**answers):
        functions = {name: lambda *_, code=code: code for name, code in answers.items()}
        monkeypatch.setattr(pynvml, "nvmlLib", types.SimpleNamespace(**functions))
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        monkeypatch.setattr(pynvml, "_nvmlLib_refcount", 0)

    return loaded


@pytest.mark.parametrize(
    ("code", "cause"),
    [(4, "no-permission"), (9, "not-loaded"), (15, "lost"), (18, "mismatch"), (999, "broken")],
)
def test_what_the_library_answers_at_first(library, code, cause):
    library(nvmlInitWithFlags=code)
    assert nvml.read().trouble.cause == cause


def test_a_library_without_the_first_function_is_too_old(library):
    library()
    assert nvml.read().trouble.cause == "too-old"


def test_a_library_that_lacks_a_later_function_is_too_old(library):
    library(nvmlInitWithFlags=0, nvmlShutdown=0)
    assert nvml.read().trouble.cause == "too-old"


def test_a_library_without_cards_is_no_trouble(library):
    library(nvmlInitWithFlags=0, nvmlShutdown=0, nvmlDeviceGetCount_v2=0)
    found = nvml.read()
    assert (found.devices, found.trouble) == ((), None)
