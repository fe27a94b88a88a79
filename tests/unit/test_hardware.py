"""Cards by name, and cards that a machine has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import msgspec
import psutil
import pytest

from dflash_deploy import amd, hardware
from dflash_deploy.amd import AmdCard
from dflash_deploy.errors import UsageError
from dflash_deploy.hardware import Card, Hardware, architecture_of, parse, probe
from dflash_deploy.registry import load
from tests.fakes.machines import MACHINES, SLICES, FakeMachine, uuid
from tests.fakes.nvml import ROOT, install, nvml_path


@pytest.fixture(scope="module")
def gpus():
    return load(user=False).gpus


@pytest.fixture(autouse=True)
def _no_cards_of_the_hosts(monkeypatch):
    monkeypatch.setattr(amd, "read", lambda: ())
    monkeypatch.setattr(hardware.pci, "cards", lambda vendor: [])


@pytest.fixture
def found(monkeypatch, gpus):
    def on(machine, **environment):
        install(monkeypatch, machine)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        return probe(gpus)

    return on


@pytest.mark.parametrize("text", ["H100", "h100:1"])
def test_one_card_by_name(gpus, text):
    given = parse(text, gpus)
    assert [card.name for card in given.cards] == ["H100"]
    assert (given.architecture, given.memory_gib, given.origin) == ("hopper", 80, "given")


def test_several_cards(gpus):
    assert len(parse("RTX-3090:2", gpus).cards) == 2


def test_a_named_card_knows_its_capability_and_whose_memory_it_has(gpus):
    card = parse("GB10", gpus).cards[0]
    assert (card.compute_capability, card.unified) == ("12.1", True)
    assert not parse("H100", gpus).cards[0].unified


@pytest.mark.parametrize(
    "text", ["H1000", "H100:0", "H100:two", "", "H100:²", "H100:99999999999999"]
)
def test_what_is_no_card_is_a_usage_error_with_a_hint(gpus, text):
    with pytest.raises(UsageError) as caught:
        parse(text, gpus)
    assert "H100" in caught.value.hint


@pytest.mark.parametrize(
    ("said", "known"),
    [("rtx4090", "RTX-4090"), ("RTX 4090:2", "RTX-4090"), ("H100 80GB", "H100"), ("h100", "H100"),
     ("NVIDIA A100-SXM4-40GB", "A100-40"), ("NVIDIA L40S", "L40S")],
)  # fmt: skip
def test_a_card_is_named_as_people_and_drivers_do(gpus, said: str, known: str) -> None:
    assert parse(said, gpus).cards[0].name == known


@pytest.mark.parametrize(
    ("reported", "capability", "known", "architecture"),
    [
        ("NVIDIA H100 80GB HBM3", (9, 0), "H100", "hopper"),
        ("NVIDIA A100-SXM4-40GB", (8, 0), "A100-40", "ampere"),
        ("NVIDIA A100-SXM4-80GB", (8, 0), "A100", "ampere"),
        ("NVIDIA GeForce RTX 5090", (12, 0), "RTX-5090", "blackwell-rtx"),
        ("NVIDIA L40S", (8, 9), "L40S", "ada"),
        ("NVIDIA GH200 480GB", (9, 0), "GH200", "hopper"),
        ("NVIDIA L40", (8, 9), "NVIDIA L40", "ada"),
        ("NVIDIA T400", (7, 5), "NVIDIA T400", None),
        ("NVIDIA H100 of another kind", (10, 0), "NVIDIA H100 of another kind", "blackwell"),
    ],
)
def test_nvml_names_are_recognised(found, reported, capability, known, architecture):
    card = replace(MACHINES["h100"].cards[0], name=reported, capability=capability)
    machine = found(FakeMachine((card,)))
    assert machine.origin == "found"
    assert (machine.cards[0].name, machine.architecture) == (known, architecture)


@pytest.mark.parametrize(
    ("capability", "architecture"),
    [
        ((7, 5), None), ((8, 0), "ampere"), ((8, 6), "ampere"), ((8, 9), "ada"), ((9, 0), "hopper"),
        ((10, 0), "blackwell"), ((10, 3), "blackwell"), ((12, 0), "blackwell-rtx"), (None, None),
    ],
)  # fmt: skip
def test_the_capability_gives_the_architecture(capability, architecture):
    assert architecture_of(capability) == architecture


@pytest.mark.parametrize(
    ("machine", "said", "gib", "nvlink"),
    [
        ("h100", "1 x H100", 79.6, None),
        ("8xh100", "8 x H100", 79.6, True),
        ("h200", "1 x H200", 140.4, None),
        ("b200", "1 x B200", 179.1, None),
        ("rtx3090", "1 x RTX-3090", 24, None),
        ("rtx4090", "1 x RTX-4090", 24, None),
        ("rtx5090", "1 x RTX-5090", 31.8, None),
        ("2xrtx3090", "2 x RTX-3090", 24, False),
        ("mixed", "1 x RTX-4090 + 1 x H100", 24, False),
        ("mig", "1 x H100 3g.40gb slice", 39.5, None),
        ("driver-cuda12", "1 x H100", 79.6, None),
        ("unheard-of", "1 x NVIDIA X900", 293, None),
    ],
)
def test_machines_are_told_as_they_are(found, machine, said, gib, nvlink):
    told = found(machine)
    assert (str(told), told.nvlink, told.trouble) == (said, nvlink, None)
    assert told.memory_gib == pytest.approx(gib, abs=0.1)
    assert 0 < told.free_gib < told.memory_gib or machine == "unheard-of"


def test_bridged_pairs_are_joined_and_four_cards_in_pairs_are_not(found):
    assert found("4xrtx3090").nvlink is False
    assert found("4xrtx3090", CUDA_VISIBLE_DEVICES="2,3").nvlink is True
    assert found("4xrtx3090", CUDA_VISIBLE_DEVICES="1,2").nvlink is False


def test_no_card_is_a_normal_case(found):
    assert found("none") == Hardware(driver="580.95.05", cuda="13.0")


def test_without_a_driver_there_are_no_cards_and_one_line_why(found):
    told = found("no-library")
    assert (told.cards, told.origin, told.cause) == ((), "none", "no-library")
    assert "\n" not in told.trouble


@pytest.mark.parametrize("machine", MACHINES)
def test_every_machine_is_one_json_document(found, machine):
    told = found(machine)
    document = msgspec.json.decode(msgspec.json.encode(told))
    assert len(document["cards"]) == len(told.cards)
    assert bool(told.trouble) == bool(told.cause) == bool(told.remedy)


def test_mixed_cards_have_no_architecture_and_the_smallest_memory(found):
    told = found("mixed")
    assert told.architecture is None
    assert any("by speed" in note for note in told.notes)
    assert not any(
        "by speed" in note for note in found("mixed", CUDA_DEVICE_ORDER="PCI_BUS_ID").notes
    )


def test_cards_are_ordered_and_hidden_as_cuda_is_told(found):
    told = found("8xh100", CUDA_VISIBLE_DEVICES="5,2")
    assert [card.index for card in told.cards] == [5, 2]
    assert [hidden.card.index for hidden in told.hidden] == [0, 1, 3, 4, 6, 7]
    assert told.nvlink is True
    by_uuid = found("8xh100", CUDA_VISIBLE_DEVICES=uuid(0x3000)[:12])
    assert [card.index for card in by_uuid.cards] == [2]


def test_hiding_every_card_is_said(found):
    told = found("h100", CUDA_VISIBLE_DEVICES="")
    assert (told.cards, told.origin, told.trouble) == ((), "none", None)
    assert "empty" in told.notes[0]


def test_a_card_in_mig_mode_is_used_by_slice(found):
    told = found("mig", CUDA_VISIBLE_DEVICES=SLICES[2].uuid)
    (card,) = told.cards
    assert (card.name, card.mig, card.uuid) == ("H100", "1g.10gb", SLICES[2].uuid)
    assert (card.memory_gib, told.architecture) == (9.75, "hopper")
    assert [hidden.card.mig for hidden in told.hidden] == ["3g.40gb", "2g.20gb"]


def test_mig_mode_without_slices_is_trouble_only_where_nothing_else_is(found):
    told = found("mig-empty")
    assert (told.cause, told.notes) == ("no-slices", ())
    sliced, whole = MACHINES["mig-empty"].cards[0], MACHINES["h200"].cards[0]
    told = found(FakeMachine((sliced, whole)))
    assert (str(told), told.trouble) == ("1 x H200", None)
    assert "no slices" in told.notes[0]


def test_shared_memory_is_said(found, monkeypatch):
    memory = type("Memory", (), {"total": 122 * 2**30, "available": 113 * 2**30})
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    told = found("gb10")
    (card,) = told.cards
    assert (card.name, card.unified, card.memory_gib, card.free_gib) == ("GB10", True, 122, 113)
    assert "CPU's memory" in told.notes[0]


def test_a_lost_card_is_trouble_and_the_others_stay(found):
    told = found("lost")
    assert [card.index for card in told.cards] == [0]
    assert told.trouble.startswith("GPU 1: ")


def test_a_card_lent_to_others_is_no_trouble(found):
    told = found("lent", CUDA_VISIBLE_DEVICES="0")  # counted among those one may use
    assert [card.index for card in told.cards] == [1]
    assert (told.trouble, told.notes) == (None, ("GPU 0 is not lent to this user",))


def test_a_known_card_that_tells_no_memory_has_the_catalogues(found):
    told = found("silent")
    assert (told.memory_gib, told.free_gib) == (80, None)
    assert "does not tell the memory" in told.notes[0]


def test_an_unknown_memory_is_none_not_zero():
    assert Hardware((Card("new", None, 0), Card("old", None, 24)), "found").memory_gib is None


def test_amd_cards_are_reported_and_not_used(found, monkeypatch):
    monkeypatch.setattr(amd, "read", lambda: (AmdCard("MI300X"), AmdCard("MI300X")))
    told = found("no-library")
    assert (told.cards, len(told.amd)) == ((), 2)
    assert told.notes == ("AMD cards are not served: 2 x MI300X",)


def planned(tmp_path, machine, **environment):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_")}
    return subprocess.run(
        [sys.executable, "-m", "dflash_deploy", "plan", "gpt-oss-120b", "--engine", "vllm", "--json"],
        env=clean | environment | {"PYTHONPATH": str(nvml_path(tmp_path, machine))},
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_command_line_plans_for_the_machine_that_nvml_plays(tmp_path):
    whole = planned(tmp_path, "8xh100")
    assert whole.returncode == 0, whole.stderr
    assert json.loads(whole.stdout)["engine"] == "vllm"
    few = planned(tmp_path, "2xrtx3090")
    assert few.returncode == 4
    assert "2 x RTX-3090" in few.stdout + few.stderr


def test_the_command_line_survives_a_broken_nvml(tmp_path):
    for machine in ("broken", "none"):
        assert planned(tmp_path, machine).returncode == 0
