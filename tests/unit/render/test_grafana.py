from __future__ import annotations

import json
import re

import pytest
import yaml

from dflash_deploy.render.grafana import HEIGHT, ROW, panels
from tests.unit.render.exported import planned, text

MADE = json.loads(text("grafana", planned("smollm2-135m", "transformers", None)))
RULES = {
    engine: {
        rule["record"]
        for group in yaml.safe_load(text("prometheus", planned("gpt-oss-20b", engine, "H100")))["groups"]
        for rule in group["rules"]
        if "record" in rule
    }
    for engine in ("vllm", "sglang")
}  # fmt: skip


def queries() -> list[str]:
    wanted = [target["expr"] for panel in MADE["panels"] for target in panel["targets"]]
    return wanted + [v["query"] for v in MADE["templating"]["list"] if v["type"] == "query"]


@pytest.mark.parametrize("query", queries())
def test_every_query_reads_what_the_rules_record(query):
    (name,) = set(re.findall(r"dflash:\w+", query))

    assert name in RULES["vllm"]
    if "by_position" not in name:  # SGLang does not count it
        assert name in RULES["sglang"]


def test_every_rule_is_shown():
    assert set(re.findall(r"dflash:\w+", " ".join(queries()))) == RULES["vllm"] | RULES["sglang"]


def test_a_variable_stands_for_every_name_in_a_query():
    known = {variable["name"] for variable in MADE["templating"]["list"]}

    assert set(re.findall(r"\$\{?(\w+)", json.dumps(MADE))) - {"__all"} <= known


def test_panels_fill_rows_and_do_not_overlap():
    taken = set()
    for panel in MADE["panels"]:
        place = panel["gridPos"]
        cells = {(x, place["y"]) for x in range(place["x"], place["x"] + place["w"])}
        assert not cells & taken
        assert place["x"] + place["w"] <= ROW
        taken |= cells
    assert len(taken) == ROW * (max(y for _, y in taken) // HEIGHT + 1)
    assert len({panel["id"] for panel in MADE["panels"]}) == len(panels())


def test_the_evidence_is_dashed():
    (override,) = MADE["panels"][0]["fieldConfig"]["overrides"]

    assert override["matcher"] == {"id": "byFrameRefID", "options": "B"}
    assert "on_record" in MADE["panels"][0]["targets"][1]["expr"]


def test_it_is_the_same_for_every_model():
    assert json.loads(text("grafana", planned("gpt-oss-20b", "sglang", "H100"))) == MADE
