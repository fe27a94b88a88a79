"""What the doctor says of the recorded machines."""

from __future__ import annotations

import pytest

from dflash_deploy import amd, hardware
from dflash_deploy.amd import AmdCard
from dflash_deploy.doctor import gpu
from dflash_deploy.registry import load
from tests.fakes.nvml import install


@pytest.fixture
def said(monkeypatch):
    gpus = load(user=False).gpus

    def of(machine, *, on_bus=(), amd_cards=(), **environment):
        install(monkeypatch, machine)
        monkeypatch.setattr(amd, "read", lambda: tuple(amd_cards))
        monkeypatch.setattr(hardware.pci, "cards", lambda vendor: list(on_bus))
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        probed = hardware.probe(gpus)
        return [(f.state, f.text, f.remedy) for f in gpu.findings(probed)], gpu.usable(probed)

    return of


def test_each_card_with_its_memory_and_what_joins_them(said):
    found, usable = said("2xrtx3090")
    assert usable
    assert found == [
        ("ok", "0: RTX-3090, ampere 8.6, 24.0 GiB, 23.7 free", None),
        ("ok", "1: RTX-3090, ampere 8.6, 24.0 GiB, 23.7 free", None),
        ("ok", "driver 580.95.05, runs CUDA up to 13.0; no NVLink", None),
    ]


@pytest.mark.parametrize(
    ("machine", "part"),
    [
        ("8xh100", "NVLink between all cards"),
        ("4xrtx3090", "not every two joined by NVLink"),
        ("h100", "runs CUDA up to 13.0"),
    ],
)
def test_how_cards_are_joined(said, machine, part):
    found, _ = said(machine)
    assert found[-1][1].endswith(part)


def test_a_slice_is_told_with_its_profile_and_the_others_as_unused(said):
    found, usable = said("mig")
    assert usable
    assert found[0][1] == "0: H100 3g.40gb slice, hopper 9.0, 39.5 GiB, 39.4 free"
    assert found[-1][0] == "note"
    assert found[-1][1].startswith("not used: 1 x H100 2g.20gb slice + 1 x H100 1g.10gb slice;")


def test_shared_memory_is_said(said):
    found, usable = said("gb10")
    assert usable
    assert ("note", "GB10 shares the CPU's memory: total and free are the system's", None) in found


def test_a_card_that_others_fill_is_a_note(said, monkeypatch):
    from dataclasses import replace

    from tests.fakes.machines import RTX_4090, FakeMachine

    full = FakeMachine((replace(RTX_4090, used=20000),))
    found, usable = said(full)
    assert usable
    assert found[0][0] == "note"
    assert "used by 2 processes: somebody else holds most of it" in found[0][1]
    assert found[0][2] == "nvidia-smi"


def test_an_architecture_without_recipes_is_said(said):
    from dataclasses import replace

    from tests.fakes.machines import RTX_3090, FakeMachine

    old = FakeMachine((replace(RTX_3090, name="Tesla T4", capability=(7, 5)),))
    found, _ = said(old)
    assert found[0][0] == "note"
    assert found[0][1].endswith("no recipe covers this architecture")


@pytest.mark.parametrize("machine", ["none", "no-library"])
def test_no_gpu_is_no_error_and_says_what_works(said, machine):
    found, usable = said(machine)
    assert not usable
    assert found == [
        ("ok", "no NVIDIA GPU here: small models run on the CPU", "dflash chat smollm2-135m")
    ]


def test_a_card_on_the_bus_without_a_driver_is_a_problem(said):
    found, _ = said("no-library", on_bus=["0000:01:00.0"])
    state, text, remedy = found[0]
    assert state == "problem"
    assert text.endswith("was not found (1 on the PCI bus)")
    assert "install the NVIDIA driver" in remedy


@pytest.mark.parametrize(
    ("machine", "part"),
    [
        ("driver-too-old", "is too old"), ("driver-updated", "library and module differ"),
        ("driver-not-loaded", "not loaded"), ("no-permission", "refuses this user"),
        ("mig-empty", "has no slices"), ("broken", "NVML is broken"),
        ("no-libcuda", "CUDA programs cannot use them"),
    ],
)  # fmt: skip
def test_what_keeps_cuda_away_is_one_problem_with_a_remedy(said, machine, part):
    found, usable = said(machine)
    problems = [item for item in found if item[0] == "problem"]
    assert not usable
    assert len(problems) == 1
    assert part in problems[0][1]
    assert problems[0][2]


def test_a_lost_card_beside_a_good_one_keeps_nothing(said):
    found, usable = said("lost")
    assert usable
    assert ("note", "GPU 1: the GPU is lost: it fell off the bus") in [f[:2] for f in found]


def test_an_empty_selection_is_a_problem_and_a_narrow_one_a_note(said):
    hidden, usable = said("2xrtx3090", CUDA_VISIBLE_DEVICES="")
    assert not usable
    assert hidden[0] == (
        "problem", "no GPU that CUDA may use: hidden are 2 x RTX-3090", "unset CUDA_VISIBLE_DEVICES",
    )  # fmt: skip
    assert ("note", "CUDA_VISIBLE_DEVICES is empty: CUDA sees no card", None) in hidden
    narrow, usable = said("8xh100", CUDA_VISIBLE_DEVICES="3")
    assert usable
    assert narrow[-1][1] == "not used: 7 x H100; CUDA_VISIBLE_DEVICES=3 leaves it out"


def test_amd_cards_are_named_as_not_served(said):
    found, usable = said("no-library", amd_cards=[AmdCard("Instinct MI300X")])
    assert not usable
    assert ("note", "AMD cards are not served: 1 x Instinct MI300X", None) in found
