"""The rules for Prometheus and the dashboard for Grafana, against the real things."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import tenacity
import yaml

pytest.importorskip("opentelemetry.exporter.prometheus")

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from prometheus_client import REGISTRY, generate_latest, start_http_server

from loopguard_lg import Human, Step, Turn, Verdict
from loopguard_lg.budgets import Exceeded
from loopguard_lg.hooks import GuardEvent
from loopguard_lg.steps import Tokens
from loopguard_lg.telemetry.otel import OtelObserver
from tests.telemetry.conftest import Climb

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "loopguard.rules.yml"
BOARD = json.loads((DEPLOY / "grafana" / "loopguard.json").read_text("utf-8"))
EXPRESSIONS = [target["expr"] for p in BOARD["panels"] for target in p["targets"]]

Asks = Callable[[str], list[dict[str, Any]]]


def promtool(*args: str) -> str:
    """What promtool says; a failure shows it."""
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("no promtool on PATH: apt-get install prometheus")
    done = subprocess.run([tool, *args], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def exported() -> Iterator[str]:
    """What a scrape of a guarded run gives, which goes on while the tests do."""
    meters = MeterProvider([PrometheusMetricReader()])
    observer = OtelObserver(tracer_provider=TracerProvider(), meter_provider=meters)
    climb = Climb()
    climb.run([observer])
    over = Exceeded(limit="usd", spent=2.0, allowed=1.0, scope="run")
    step = Step(tool="t", seconds=0.5, error=True)
    spent = {"tokens": Tokens(input=9, output=1), "cost": 0.5, "seconds": 1.0}
    for name, event, verdict in (
        ("seen", Human(), Verdict()),
        ("seen", Turn(model="m", steps=(step,), **spent), Verdict()),
        ("exited", None, Verdict(exceeded=over)),
    ):
        about = {"thread": "other", "agent": "main", "verdict": verdict}
        observer(GuardEvent(name=name, event=event, **about))
    yield generate_latest(REGISTRY).decode()
    meters.shutdown()


def test_the_rules_are_valid() -> None:
    """By promtool."""
    assert "SUCCESS" in promtool("check", "rules", str(RULES))


def test_alerts_fire_on_made_series_as_they_should() -> None:
    """Fast, slow, over days, for one model, not for few tasks, and ending soon."""
    promtool("test", "rules", str(RULES.with_suffix(".test.yml")))


def test_what_the_dashboard_asks_for_is_valid(tmp_path: Path) -> None:
    """Each expression parses, with the dashboard's variables filled in."""
    filled = [
        re.sub(r"\$__range", "1h", expression).replace("$agent", ".*")
        for expression in EXPRESSIONS
    ]
    rules = [{"record": f"r:{n}", "expr": text} for n, text in enumerate(filled)]
    file = tmp_path / "board.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": rules}]}))

    assert f"{len(rules)} rules found" in promtool("check", "rules", str(file))


def names_in(text: str) -> set[str]:
    """The metrics and recorded series that an expression names."""
    return set(re.findall(r"\b(?:loopguard|gen_ai_client)[_:][\w:]+", text))


def test_every_metric_that_is_asked_for_is_exported(exported: str) -> None:
    """Rules and dashboard name what a scrape of a run has, or what a rule records."""
    groups = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    recorded = {rule.get("record") for rule in rules}
    asked = names_in("\n".join([*EXPRESSIONS, *(rule["expr"] for rule in rules)]))

    assert asked - recorded <= names_in(exported)
    assert names_in(exported) & asked


def test_every_label_that_is_asked_for_is_exported(exported: str) -> None:
    """Of selectors and groupings, but for those that Prometheus makes."""
    text = "\n".join([*EXPRESSIONS, RULES.read_text("utf-8")])
    asked = {name for group in re.findall(r"by \(([^)]*)\)", text)
             for name in re.split(r",\s*", group)}  # fmt: skip
    asked |= set(re.findall(r"[{,]\s*(\w+)[=!]~?", text))
    given = set(re.findall(r'[{,](\w+)="', exported))

    assert asked - {"severity"} <= given


def test_the_dashboard_is_as_the_schema_of_grafana_has_it() -> None:
    """Every key of it and of its panels is one that Grafana's own types know."""
    models = pytest.importorskip("grafana_foundation_sdk.models.dashboard")
    board = models.Dashboard.from_json(BOARD)

    assert BOARD.keys() - {"timepicker", "id"} <= board.to_json().keys()
    for panel, given in zip(board.panels, BOARD["panels"], strict=True):
        assert given.keys() <= panel.to_json().keys()
        assert given["gridPos"] == panel.grid_pos.to_json()


def test_panels_lie_beside_each_other() -> None:
    """None covers another, none goes beyond the 24 columns, each has its own id."""
    cells = [
        (x, y)
        for at in (panel["gridPos"] for panel in BOARD["panels"])
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]

    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])


@pytest.fixture
def prometheus(exported: str, tmp_path: Path) -> Iterator[Asks]:
    """A Prometheus that scrapes the run, with the rules; answers queries."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("no prometheus on PATH: apt-get install prometheus")
    server, thread = start_http_server(0, "127.0.0.1")
    target = {"targets": [f"127.0.0.1:{server.server_port}"]}
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [{"job_name": "agents", "static_configs": [target]}],
    }
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = [
        f"--config.file={tmp_path}/prometheus.yml",
        f"--storage.tsdb.path={tmp_path}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    log = tmp_path / "log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [program, *options], stdout=out, stderr=subprocess.STDOUT
        )
    try:
        yield asker(port, log)
    finally:
        process.terminate()
        process.wait()
        server.shutdown()
        server.server_close()
        thread.join()


def asker(port: int, log: Path) -> Asks:
    """What asks the server until it answers; its log tells why it does not."""

    @tenacity.retry(
        stop=tenacity.stop_after_delay(60),
        wait=tenacity.wait_fixed(0.1),
        retry=tenacity.retry_if_not_result(bool) | tenacity.retry_if_exception_type(),
        retry_error_callback=lambda _: pytest.fail(log.read_text()),
    )
    def ask(query: str) -> list[dict[str, Any]]:
        address = f"http://127.0.0.1:{port}/api/v1/query"
        with urlopen(f"{address}?{urlencode({'query': query})}") as answer:
            result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return result

    return ask


def test_a_real_prometheus_scrapes_a_run(prometheus: Asks) -> None:
    """Tasks, the one that tripped with its labels, and the rules at work on them."""
    (tripped,) = prometheus("loopguard_tasks_tripped_total")
    (tasks,) = prometheus("sum(loopguard_tasks_total)")

    assert (tripped["value"][1], tasks["value"][1]) == ("1", "2")
    assert tripped["metric"]["kind"] == "repeat"
    assert tripped["metric"]["tool"] == "search"
    assert prometheus("loopguard:tasks:increase1h")
