"""Prometheus rules, read and run by Prometheus' own promtool."""

from __future__ import annotations

import msgspec
import pytest
import yaml

from dflash_deploy.metric_names import metric_names
from dflash_deploy.plan import Expectation
from dflash_deploy.render.prometheus import bounds, render
from tests.unit.render.exported import REGISTRY, planned, ran, text

CASES = {
    "vllm": ("gpt-oss-20b", "vllm", "H100"),
    "sglang": ("gpt-oss-20b", "sglang", "H100"),
    "transformers": ("smollm2-135m", "transformers", None),
}
KNOWN = Expectation(4.0, "gsm8k: the card", 5.0)


def plan(name: str, **changes: object):
    return msgspec.structs.replace(planned(*CASES[name]), **changes)


@pytest.mark.parametrize("name", CASES)
def test_promtool_finds_nothing_wrong(name, tmp_path):
    file = tmp_path / "rules.yml"
    file.write_text(text("prometheus", plan(name)))

    done = ran("promtool", "check", "rules", "--lint-fatal", file)

    assert (done.returncode, done.stderr) == (0, "")


def test_a_key_keeps_nobody_from_watching():
    from tests.unit.render.exported import with_key

    assert text("prometheus", with_key(plan("vllm"))) == text("prometheus", plan("vllm"))


@pytest.mark.parametrize(
    ("expectation", "wanted"),
    [
        (KNOWN, (2.0, 7.5)),
        (Expectation(1.5, "x", 1.6), (1.05, 2.4)),
        (Expectation(6.0, "x", 7.0), (3.0, 7.6)),  # a block of 8 yields no 10.5
        (None, (1.3, 7.6)),
    ],
)
def test_the_bounds_follow_from_the_evidence(expectation, wanted):
    assert bounds(plan("vllm", expectation=expectation)) == wanted


def test_an_old_sglang_has_its_gauge_alone():
    old = planned("gpt-oss-20b", "sglang", "H100", engine_version="0.5.11")

    (rule,) = [r for r in rules(old) if r.get("record") == "dflash:acceptance_length"]

    assert "spec_accept_length" in rule["expr"]
    assert "spec_verify_calls" not in rule["expr"]


def test_a_name_with_quotes_stays_one():
    odd = plan("vllm", served_names=('a"b\\c',))

    assert 'model_name="a\\"b\\\\c"' in rules(odd)[0]["expr"]


def rules(made) -> list[dict]:
    written = render(made, metric_names(REGISTRY.engines[made.engine], made.version))
    return [rule for group in yaml.safe_load(written)["groups"] for rule in group["rules"]]


SPEC = "vllm:spec_decode_num_"
AT = 'instance="h:1",job="j",model_name="{}"'
# what each engine says of a server whose cycles yield a number of tokens, at 600 a minute
COUNTED = {
    "vllm": {
        f"{SPEC}drafts_total": lambda length: f"0+{600 / length}x60",
        f"{SPEC}accepted_tokens_total": lambda length: f"0+{600 - 600 / length}x60",
        "vllm:generation_tokens_total": lambda _: "0+600x60",
    },
    "sglang": {
        "sglang:spec_verify_calls_total": lambda length: f"0+{600 / length}x60",
        "sglang:generation_tokens_total": lambda _: "0+600x60",
        'sglang:realtime_tokens_total{mode="decode"}': lambda _: "0+600x60",
    },
}
NAMES = {
    "vllm": ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc",
             "vllm:time_to_first_token_seconds_bucket"),
    "sglang": ("sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:token_usage",
               "sglang:time_to_first_token_seconds_bucket"),
}  # fmt: skip


def series(engine: str, model: str, length: float, load: dict[str, str]) -> list[dict]:
    """Sixty minutes of a server; `load` says what is not as on an easy day."""
    at = AT.format(model)
    running, waiting, cache, ttft = NAMES[engine]
    found = {running: "4x60", waiting: "0x60", cache: "0.3x60", "up": "1x60"} | {
        {"waiting": waiting, "cache": cache, "up": "up", "running": running}[name]: value
        for name, value in load.items()
        if name != "ttft"
    }
    slow = load.get("ttft", "0.5")
    for bound in ("0.5", "10", "+Inf"):
        reached = bound == "+Inf" or float(bound) >= float(slow)
        found[f'{ttft}{{le="{bound}"}}'] = f"0+{60 * reached}x60"
    if length:
        found |= {name: said(length) for name, said in COUNTED[engine].items()}
    else:  # without a draft
        name = list(COUNTED[engine])[-1]
        found[name] = COUNTED[engine][name](0)
    return [
        {
            "series": f"{name.rstrip('}')},{at}}}" if "{" in name else f"{name}{{{at}}}",
            "values": value,
        }
        for name, value in found.items()
        if value
    ]


@pytest.mark.parametrize(
    ("length", "load", "alert"),
    [
        (4.0, {}, None),
        (1.5, {}, "AcceptanceLow"),
        (7.9, {}, "AcceptanceSuspicious"),
        (0, {}, "SpeculationInactive"),
        (4.0, {"waiting": "1000x60"}, "Queue"),
        (4.0, {"cache": "0.99x60"}, "CacheFull"),
        (4.0, {"ttft": "9"}, "FirstTokenLate"),
        (4.0, {"up": "1x10 0x50", "running": "4x10 stale"}, "Down"),
    ],
)
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_alerts_that_fire_are_these(engine, length, load, alert, tmp_path):
    made = plan(engine, expectation=KNOWN)
    (tmp_path / "rules.yml").write_text(text("prometheus", made))
    model = made.served_names[0]
    names = [r["alert"] for r in rules(made) if "alert" in r]
    checked = [
        {"eval_time": "40m", "alertname": name, "exp_alerts": []}
        for name in names
        if name != f"DFlash{alert}"
    ]
    document = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": series(engine, model, length, load),
                "alert_rule_test": checked,
                "promql_expr_test": [
                    {
                        "expr": f'count(ALERTS{{alertname="DFlash{alert}",alertstate="firing"}}) or vector(0)',
                        "eval_time": "40m",
                        "exp_samples": [{"labels": "{}", "value": int(alert is not None)}],
                    }
                ],
            }
        ],
    }
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(document))

    done = ran("promtool", "test", "rules", tmp_path / "tests.yml")

    assert done.returncode == 0, done.stdout + done.stderr


def test_a_server_that_was_never_seen_is_told(tmp_path):
    made = plan("vllm")
    (tmp_path / "rules.yml").write_text(text("prometheus", made))
    document = {
        "rule_files": ["rules.yml"],
        "tests": [
            {
                "interval": "1m",
                "promql_expr_test": [
                    {
                        "expr": 'count(ALERTS{alertname="DFlashDown",alertstate="firing"})',
                        "eval_time": "10m",
                        "exp_samples": [{"labels": "{}", "value": 1}],
                    }
                ],
            }
        ],
    }
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(document))

    done = ran("promtool", "test", "rules", tmp_path / "tests.yml")

    assert done.returncode == 0, done.stdout + done.stderr
