"""The NVML probe on recorded machines, and the fake against the real binding."""

from __future__ import annotations

import inspect
import sys
import types
from dataclasses import replace

import psutil
import pynvml
import pytest

from dflash_deploy import nvml
from tests.fakes.machines import MACHINES, MIB, NO_PERMISSION, SLICES, FakeMachine
from tests.fakes.nvml import CODES, ERRORS, NVMLError, fill, install

GIB = 2**30


def read(monkeypatch, machine, root=None):
    install(monkeypatch, machine)
    return nvml.read(root) if root else nvml.read()


def test_the_fake_has_the_names_codes_and_parameters_of_the_real_binding():
    fake = fill(types.ModuleType("pynvml"), MACHINES["none"])
    for name, call in vars(fake).items():
        if name.startswith("nvml") and callable(call):
            real = inspect.signature(getattr(pynvml, name)).parameters
            assert list(inspect.signature(call).parameters) == list(real), name
    for name, code in CODES.items():
        assert getattr(pynvml, f"NVML_ERROR_{name}") == code
        assert getattr(pynvml, ERRORS[code].__name__).__name__ == type(NVMLError(code)).__name__
    assert pynvml.nvmlMemory_v2 == fake.nvmlMemory_v2
    assert not issubclass(pynvml.NVMLLibraryMismatchError, pynvml.NVMLError)
    assert (pynvml.NVML_P2P_CAPS_INDEX_NVLINK, pynvml.NVML_P2P_STATUS_OK) == (
        nvml.NVLINK_CAPABILITY, nvml.P2P_OK,
    )  # fmt: skip


@pytest.mark.parametrize("machine", MACHINES)
def test_every_machine_is_a_value_and_nvml_is_closed_again(monkeypatch, machine):
    module = install(monkeypatch, machine)
    found = nvml.read()
    assert module.player.open == 0
    assert bool(found.devices) + bool(found.trouble) + bool(found.unreadable) or machine == "none"


def test_one_card_is_told_whole(monkeypatch):
    found = read(monkeypatch, "h100")
    (card,) = found.devices
    assert (found.driver, found.cuda, found.trouble) == ("580.95.05", "13.0", None)
    assert (card.name, card.capability) == ("NVIDIA H100 80GB HBM3", (9, 0))
    assert (card.total, card.free, card.reserved) == (81559 * MIB, 81004 * MIB, 551 * MIB)
    assert (card.processes, card.held) == (0, 0)


def test_a_program_that_computes_and_draws_is_counted_once(monkeypatch):
    (card,) = read(monkeypatch, "rtx4090").devices
    assert (card.processes, card.held) == (2, 1000 * MIB)


def test_every_pair_of_cards_is_asked_for_nvlink(monkeypatch):
    assert len(read(monkeypatch, "8xh100").links) == 28
    assert read(monkeypatch, "2xrtx3090").links == ((0, 1, False),)
    assert read(monkeypatch, "h100").links == ()


def test_slices_have_their_own_memory_and_both_their_names(monkeypatch):
    (card,) = read(monkeypatch, "mig").devices
    assert card.total is None
    assert [part.total for part in card.slices] == [part.total * MIB for part in SLICES]
    assert card.slices[1].mig_ids == (SLICES[1].uuid, f"MIG-{card.uuid}/3/0")
    assert (card.slices[1].processes, card.slices[1].held) == (1, 12 * MIB)


def test_a_slice_that_tells_no_memory_has_its_profiles(monkeypatch):
    part = replace(SLICES[0], fails={"nvmlDeviceGetMemoryInfo": NO_PERMISSION})
    card = replace(MACHINES["mig"].cards[0], slices=(part,))
    (told,) = read(monkeypatch, FakeMachine((card,))).devices[0].slices
    assert (told.total, told.free) == (part.total * MIB, None)


def test_an_integrated_card_has_the_systems_memory(monkeypatch):
    memory = types.SimpleNamespace(total=122 * GIB, available=113 * GIB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    (card,) = read(monkeypatch, "gb10").devices
    assert (card.unified, card.total, card.free) == (True, 122 * GIB, 113 * GIB)


def test_a_silent_discrete_card_is_not_taken_for_an_integrated_one(monkeypatch):
    (card,) = read(monkeypatch, "silent").devices
    assert (card.unified, card.total, card.capability, card.processes) == (False, None, None, None)


def test_an_older_driver_answers_by_its_older_calls(monkeypatch):
    found = read(monkeypatch, "driver-cuda11")
    (card,) = found.devices
    assert (found.cuda, card.total, card.reserved) == ("11.4", 24576 * MIB, None)
    assert (card.processes, card.held) == (1, 100 * MIB)


def test_a_container_without_libcuda_is_told_from_an_old_driver(monkeypatch):
    found = read(monkeypatch, "no-libcuda")
    assert (found.cuda, found.libcuda) == (None, False)


@pytest.mark.parametrize(
    ("machine", "cause", "said"),
    [
        ("no-library", "no-library", "libnvidia-ml.so.1 was not found"),
        ("driver-not-loaded", "not-loaded", "not loaded"),
        ("driver-too-old", "too-old", "driver 390.157 is too old"),
        ("driver-updated", "mismatch", "was updated while 390.157 is still loaded"),
        ("no-permission", "no-permission", "refuses this user"),
        ("broken", "broken", "UNKNOWN"),
        ("broken-later", "broken", "UNKNOWN"),
    ],
)
def test_what_is_wrong_with_a_driver_is_told_apart(monkeypatch, tmp_path, machine, cause, said):
    (tmp_path / "module/nvidia").mkdir(parents=True)
    (tmp_path / "module/nvidia/version").write_text("390.157\n")
    found = read(monkeypatch, machine, tmp_path)
    assert found.trouble.cause == cause
    assert said in found.trouble.message
    assert found.driver == "390.157"
    assert found.devices == ()


@pytest.mark.parametrize("machine", ["driver-too-old", "driver-updated"])
def test_an_unknown_driver_version_leaves_a_whole_sentence(monkeypatch, tmp_path, machine):
    message = read(monkeypatch, machine, tmp_path).trouble.message
    assert "  " not in message
    assert "{" not in message


def test_a_lost_card_leaves_the_others(monkeypatch):
    found = read(monkeypatch, "lost")
    assert [card.index for card in found.devices] == [0]
    ((index, trouble),) = found.unreadable
    assert (index, trouble.cause) == (1, "lost")


def test_a_missing_binding_is_a_value(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert nvml.read().trouble.cause == "no-package"


def test_a_foreign_module_of_that_name_is_a_value(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", types.ModuleType("pynvml"))
    assert nvml.read().trouble.cause == "broken"


@pytest.mark.parametrize(
    "fault", [OSError("bad library"), UnicodeDecodeError("utf-8", b"", 0, 1, "x")]
)
def test_what_a_damaged_library_raises_is_a_value(monkeypatch, fault):
    def fail(*given):
        raise fault

    module = install(monkeypatch, "h100")
    module.nvmlDeviceGetName = fail
    ((_, trouble),) = nvml.read().unreadable
    assert trouble.cause == "broken"
