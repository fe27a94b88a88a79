"""One dashboard for every model and engine; its panels are data, in `templates/dashboard.yaml`."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from dflash_deploy.resources import templates_root
from dflash_deploy.schema import Struct

SCHEMA = 39
"""Grafana 10.4 and later; a newer one brings older dashboards up to itself."""
ROW, HEIGHT = 24, 8
SERVER = 'model_name=~"$model", instance=~"$instance"'
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


class Query(Struct, frozen=True, kw_only=True):
    expr: str
    legend: str
    dashed: bool = False


class Panel(Struct, frozen=True, kw_only=True):
    title: str
    unit: str
    width: int
    queries: list[Query]
    description: str = ""


class Panels(Struct, frozen=True, kw_only=True):
    panels: list[Panel]


def render() -> str:
    return json.dumps(dashboard(panels()), indent=2)


def panels() -> list[Panel]:
    import yaml

    text = (templates_root() / "dashboard.yaml").read_text()
    return msgspec.convert(yaml.safe_load(text), Panels).panels


def dashboard(shown: list[Panel]) -> dict[str, Any]:
    """As `Dashboards > New > Import` takes it."""
    return {
        "uid": "dflash",
        "title": "DFlash",
        "tags": ["dflash"],
        "schemaVersion": SCHEMA,
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "10s",
        "templating": {"list": [_source(), *_variables()]},
        "panels": _placed(shown),
    }


def _source() -> dict[str, Any]:
    return {
        "name": "datasource",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
    }


def _variables() -> list[dict[str, Any]]:
    chosen = (
        ("model", "Model", "label_values(dflash:requests_running, model_name)"),
        (
            "instance",
            "Server",
            'label_values(dflash:requests_running{model_name=~"$model"}, instance)',
        ),
    )
    return [
        {
            "name": name, "label": label, "type": "query", "datasource": SOURCE, "query": query,
            "refresh": 2, "includeAll": True, "multi": True, "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
        }
        for name, label, query in chosen
    ]  # fmt: skip


def _placed(shown: list[Panel]) -> list[dict[str, Any]]:
    """From left to right, a new row where one is full."""
    made, x, y = [], 0, 0
    for number, panel in enumerate(shown, 1):
        if x + panel.width > ROW:
            x, y = 0, y + HEIGHT
        place = {"x": x, "y": y, "w": panel.width, "h": HEIGHT}
        made.append({"id": number, "gridPos": place, **_drawn(panel)})
        x += panel.width
    return made


def _drawn(panel: Panel) -> dict[str, Any]:
    return {
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0},
            "overrides": [_dashes(_ref(n)) for n, q in enumerate(panel.queries) if q.dashed],
        },
        "targets": [
            {
                "refId": _ref(number),
                "expr": query.expr.replace("$server", SERVER),
                "legendFormat": query.legend,
            }
            for number, query in enumerate(panel.queries)
        ],
    }


def _dashes(ref: str) -> dict[str, Any]:
    line = {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [10, 10]}}
    return {"matcher": {"id": "byFrameRefID", "options": ref}, "properties": [line]}


def _ref(number: int) -> str:
    return chr(ord("A") + number)
