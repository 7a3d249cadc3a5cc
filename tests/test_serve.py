"""The service as users run it: a process on the loopback interface, real connections, signals and bad clients."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

import rankwright as rw
from bad_requests import Bad, Shape, bad_requests, exchange, faults, named
from bad_requests import http as framed
from running_service import Service
from small import TRAIN, VALID, quick
from waiting import wait_for

TOKEN = "a-token-of-sufficient-length"
LIMIT = 1.0  # seconds of a request to the strict service
MAX_ROWS, MAX_BODY = 60, 200_000
X: Any = np.nan_to_num(VALID.X.astype(np.float64))[:20]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models of the same columns, and one of others."""
    folder = tmp_path_factory.mktemp("models")
    quick().fit(TRAIN).calibrate(TRAIN, target="relevance", folds=2).save(folder / "first")
    quick(n_estimators=7).fit(TRAIN).save(folder / "second")
    quick().fit(TRAIN.X[:, :5], TRAIN.y, qid=TRAIN.qid).save(folder / "narrow")
    return folder


@pytest.fixture(scope="module")
def first(models: Path) -> rw.Model:
    return rw.load(models / "first")


@pytest.fixture(scope="module")
def service(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    patient = (
        "--watch",
        "0",
        "--time-limit",
        "120",
    )  # on a busy machine the first contributions take long
    with Service(models / "first", tmp_path_factory.mktemp("service") / "log", *patient) as running:
        yield running


@pytest.fixture(scope="module")
def strict(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with a token and low limits."""
    limits = ("--time-limit", str(LIMIT), "--max-rows", str(MAX_ROWS), "--max-body", str(MAX_BODY))
    log = tmp_path_factory.mktemp("strict") / "log"
    with Service(models / "first", log, *limits, token=TOKEN) as running:
        yield running


def expected(model: rw.Model, rows: Any, ids: Any = None) -> list[tuple[Any, float]]:
    """Ids and scores as the model ranks them."""
    scores = model.predict(rows, n_jobs=1).tolist()
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    return [(i if ids is None else ids[i], scores[i]) for i in order]


def pairs(answer: Any) -> list[tuple[Any, float]]:
    return [(result["id"], result["score"]) for result in answer["results"]]


def schema(document: Any, name: str) -> Any:
    return {"$ref": f"#/components/schemas/{name}", "components": document["components"]}


# Answers.


def test_rows_are_ranked_as_the_model_scores_them(service: Service, first: rw.Model) -> None:
    answer = service.rank(rows=X.tolist())
    assert pairs(answer) == expected(first, X)
    assert len({score for _, score in pairs(answer)}) > 5
    ids = [f"doc-{i}" if i % 2 else i for i in range(len(X))]
    assert pairs(service.rank(rows=X.tolist(), ids=ids)) == expected(first, X, ids)
    assert pairs(service.rank(rows=X.tolist(), top=3)) == expected(first, X)[:3]
    assert pairs(service.rank(rows=X.tolist(), top=10**30)) == expected(first, X)
    assert service.rank(rows=[])["results"] == []


def test_documents_are_matched_by_name(service: Service, first: rw.Model) -> None:
    documents = [
        dict(reversed(list(zip(first.feature_names, row, strict=True)))) for row in X.tolist()
    ]
    assert pairs(service.rank(documents=documents)) == expected(first, X)


def test_equal_scores_keep_the_order_of_the_request(service: Service) -> None:
    ids = [f"{17 * i % 100}" for i in range(100)]
    answer = service.rank(rows=[X[i % 2].tolist() for i in range(100)], ids=ids)
    ranked = [result["id"] for result in answer["results"]]
    assert sorted([ranked[:50], ranked[50:]]) == sorted([ids[::2], ids[1::2]])


def test_answers_are_not_held_back(service: Service) -> None:
    """The head and the body of an answer are two packets; the second must not wait for an acknowledgement (40 ms)."""
    connection = service.connect()
    body = json.dumps({"rows": X.tolist()}).encode()
    seconds = []
    for _ in range(40):
        start = time.perf_counter()
        connection.request("POST", "/rank", body, {"Content-Type": "application/json"})
        connection.getresponse().read()
        seconds.append(time.perf_counter() - start)
    connection.close()
    assert min(seconds[-20:]) < 0.03  # the first answers are acknowledged at once


def test_many_rows_leave_the_event_loop(service: Service, first: rw.Model) -> None:
    rows = np.tile(X, (40, 1))
    assert pairs(service.rank(rows=rows.tolist())) == expected(first, rows)


def test_values_are_missing_only_where_the_request_allows_it(
    service: Service, first: rw.Model
) -> None:
    rows = [[None if i == 0 else value for i, value in enumerate(row)] for row in X.tolist()]
    changed = X.copy()
    changed[:, 0] = np.nan
    assert pairs(service.rank(rows=rows, allow_missing=True)) == expected(first, changed)
    name = first.feature_names[0]
    assert service.refused({"rows": rows}).startswith(f"rows[0], feature {name!r} is null.")
    documents = [dict(zip(first.feature_names, row, strict=True)) for row in X.tolist()]
    for document in documents:
        del document[name]
    assert pairs(service.rank(documents=documents, allow_missing=True)) == expected(first, changed)
    assert f"lacks the feature {name!r}" in service.refused({"documents": documents})
    documents[2]["colour"] = 1.0
    reason = service.refused({"documents": documents, "allow_missing": True})
    assert (
        reason == "documents[2] has the feature 'colour', which is not one of the model's columns."
    )


@pytest.mark.parametrize("request_body", [{"rows": [[1e400] * 25]}, {"rows": [[10**400] * 25]}])
def test_infinite_numbers_are_refused(service: Service, request_body: Any) -> None:
    body = json.dumps(request_body).replace("Infinity", "1e400").encode()
    assert "too large for 64 bits" in service.refused(body)


def test_whole_numbers_and_truth_values_are_numbers(service: Service, first: rw.Model) -> None:
    rows = [[1, True, *X[0].tolist()[2:]], [10**25, False, *X[1].tolist()[2:]]]
    assert pairs(service.rank(rows=rows)) == expected(first, np.array(rows, dtype=np.float64))


def test_contributions_sum_to_the_score(service: Service, first: rw.Model) -> None:
    answer = service.rank(rows=X.tolist(), contributions=True, top=4)
    values = first.predict(X, contributions=True, n_jobs=1)
    for result in answer["results"]:
        assert list(result["contributions"]) == first.feature_names
        assert list(result["contributions"].values()) == values[result["id"], :-1].tolist()
        total = sum(result["contributions"].values()) + answer["expected_score"]
        assert total == pytest.approx(result["score"], abs=1e-9)


def test_calibrated_values_come_beside_scores(service: Service, first: rw.Model) -> None:
    answer = service.rank(rows=X.tolist(), calibrated=True, top=7)
    values = first.predict(X, calibrated=True, n_jobs=1)
    assert pairs(answer) == expected(first, X)[:7]
    assert [result["calibrated"] for result in answer["results"]] == [
        values[result["id"]] for result in answer["results"]
    ]
    assert "calibrated" not in service.rank(rows=X.tolist())["results"][0]
    assert service.rank(rows=[], calibrated=True)["results"] == []
    described = service.call("GET", "/model")[1]["calibration"]
    assert (
        described == "probability of a label of at least 1, isotonic, from 28 cross-fitted queries"
    )


def test_levels_of_categories_by_name_and_codes_in_rows(tmp_path: Path) -> None:
    import pandas as pd

    draw = np.random.default_rng(1)
    brand, size = draw.choice(["acme", "best", "core"], 300), draw.integers(0, 4, 300)
    y = np.where(brand == "best", 2, 0) + (size == 1)
    frame = pd.DataFrame(
        {"brand": pd.Categorical(brand), "price": draw.normal(size=300), "size": size}
    )
    data = rw.RankingData(frame, y, qid=np.arange(300) // 10, categorical=["size"])
    quick().fit(data).save(tmp_path / "model")
    model = rw.load(tmp_path / "model")
    assert model.columns.categories == {"brand": ("acme", "best", "core"), "size": None}
    small = frame.iloc[:20].assign(brand=["new", "best"] * 10)
    documents = small.to_dict("records")
    with Service(tmp_path / "model", tmp_path / "log") as running:
        assert pairs(running.rank(documents=documents)) == expected(model, small)
        assert running.metric("rankwright_unknown_levels_total") == 10
        described = running.call("GET", "/openapi.json")[1]["paths"]["/rank"]["post"]
        examples = described["requestBody"]["content"]["application/json"]["examples"]
        for example in examples.values():
            assert len(running.rank(**example["value"])["results"]) == 2
        assert running.metric("rankwright_unknown_levels_total") == 10
        codes = np.column_stack([small.brand.map({"best": 1.0}), small.price, small["size"]])
        sent = [[None if np.isnan(value) else value for value in row] for row in codes.tolist()]
        assert pairs(running.rank(rows=sent, allow_missing=True)) == expected(model, codes)
        assert "send documents to use their levels" in running.refused({"rows": [["best", 1.0, 2]]})
        assert "must be a whole number from 0 to 2; got 1.5" in running.refused(
            {"rows": [[1.5, 1.0, 2]]}
        )
        assert "must be a whole number from 0 to 2; got 3" in running.refused(
            {"rows": [[3, 1.0, 2]]}
        )
        assert "must be a whole number from 0; got -1" in running.refused(
            {"documents": [{**documents[1], "size": -1}]}
        )
        assert "expected a number; got 'L'" in running.refused(
            {"documents": [{**documents[1], "size": "L"}]}
        )
        assert "expected a category; got a list" in running.refused(
            {"documents": [{**documents[1], "brand": []}]}
        )
        assert "'brand' is null" in running.refused(
            {"documents": [{**documents[1], "brand": None}]}
        )


# Other paths.


def test_health_readiness_and_the_model(service: Service, first: rw.Model) -> None:
    assert service.call("GET", "/health")[:2] == (200, {"status": "alive"})
    status, ready, headers = service.call("GET", "/ready")
    assert (status, ready["status"]) == (200, "ready")
    assert headers["x-request-id"]
    status, model, _ = service.call("GET", "/model")
    assert (status, model["features"], model["trees"]) == (200, first.feature_names, 12)
    assert ready["model"] == model["model"] == service.rank(rows=X.tolist())["model"]
    assert service.call("HEAD", "/health")[:2] == (200, "")


def test_the_description_is_valid_and_answers_follow_it(service: Service, strict: Service) -> None:
    from openapi_schema_validator import OAS31Validator

    for running in (service, strict):
        status, document, _ = running.call("GET", "/openapi.json")
        assert status == 200
        OpenAPIV31SpecValidator(document).validate()
    query = {"rows": X.tolist(), "contributions": True, "calibrated": True}
    answers = {
        "Query": query,
        "Ranking": service.rank(**query),
        "Model": service.call("GET", "/model")[1],
        "Status": service.call("GET", "/ready")[1],
        "Error": service.call("GET", "/nothing")[1],
    }
    for name, answer in answers.items():
        OAS31Validator(schema(document, name)).validate(answer)
    assert not OAS31Validator(schema(document, "Query")).is_valid({**query, "documents": []})
    assert document["paths"]["/rank"]["post"]["security"] == [{"token": []}]


def test_the_page_loads_nothing_from_elsewhere(service: Service) -> None:
    status, page, headers = service.call("GET", "/docs")
    assert status == 200
    assert "POST /rank" in page
    assert re.findall(r"""(?:src|href)=["']?([^"'\s>]+)""", page) == ["openapi.json"]
    assert "http://" not in page
    assert "https://" not in page
    assert "default-src 'none'" in headers["content-security-policy"]


def test_examples_have_the_columns_of_the_model(service: Service, first: rw.Model) -> None:
    document = service.call("GET", "/openapi.json")[1]
    body = document["paths"]["/rank"]["post"]["requestBody"]["content"]["application/json"]
    rows, documents = (body["examples"][kind]["value"] for kind in ("rows", "documents"))
    assert {len(row) for row in rows["rows"]} == {len(first.feature_names)}
    assert list(documents["documents"][0]) == first.feature_names
    assert len(service.rank(**rows)["results"]) == 2
    assert len(service.rank(**documents)["results"]) == 2


def test_metrics_count_requests_rows_and_time(service: Service) -> None:
    names = {
        'rankwright_requests_total{path="/rank",status="200"}': 1,
        'rankwright_requests_total{path="/rank",status="422"}': 1,
        'rankwright_requests_total{path="other",status="404"}': 1,
        "rankwright_rows_total": 7,
        "rankwright_rank_seconds_count": 2,
        'rankwright_rank_seconds_bucket{le="+Inf"}': 2,
    }
    before = {name: service.metric(name) for name in names}
    service.rank(rows=X[:7].tolist())
    service.refused({"rows": [[1]]})
    service.call("GET", "/nothing")
    assert {name: service.metric(name) - before[name] for name in names} == names
    text = service.call("GET", "/metrics")[1]
    assert re.search(
        r'^rankwright_model_info\{engine="lightgbm",model="[0-9a-f]{12}",rankwright=".+"\} 1.0$',
        text,
        re.M,
    )
    assert "_created" not in text
    for line in text.splitlines():
        assert re.match(r'# (HELP|TYPE) \w+ .+$|\w+(\{(\w+="[^"]*",?)+\})? [\d.e+-]+$', line), line
    buckets = [float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if "_bucket" in line]
    assert buckets == sorted(buckets)


def test_every_request_is_a_line_of_the_log(service: Service) -> None:
    service.call("POST", "/rank", {"rows": X[:3].tolist()}, X_Request_ID="order-66")
    service.call("POST", "/rank", {"rows": 5}, X_Request_ID="bad\tname")
    reason = "rows must be a list; got 5."
    # A line is written just after its answer.
    (bad,) = wait_for(
        lambda: [line for line in service.events("access") if line.get("reason") == reason]
    )
    (good,) = [line for line in service.events("access") if line["request"] == "order-66"]
    assert good.keys() >= {"time", "ms", "bytes", "client", "model"}
    assert (good["request"], good["status"], good["rows"], good["path"]) == (
        "order-66",
        200,
        3,
        "/rank",
    )
    assert bad["status"] == 400
    assert bad["request"] != "bad\tname"


@pytest.mark.parametrize(
    ("method", "path", "status", "reason"),
    [
        ("GET", "/rank", 405, "/rank takes POST, not 'GET'."),
        ("POST", "/health", 405, "/health takes GET, HEAD, not 'POST'."),
        ("GET", "/", 404, "there is nothing at '/'; see /docs."),
        ("POST", "/reload", 403, "/reload needs a service with a token"),
    ],
)
def test_wrong_paths_and_methods(
    service: Service, method: str, path: str, status: int, reason: str
) -> None:
    got, answer, headers = service.call(method, path)
    assert got == status
    assert answer["error"].startswith(reason)
    assert status != 405 or headers["allow"] in reason


# The token and the limits.


def test_the_token(strict: Service) -> None:
    paths = {"/rank": "POST", "/reload": "POST", "/metrics": "GET", "/model": "GET"}
    for path, method in paths.items():
        for value in (
            "",
            "Bearer",
            f"Bearer {TOKEN}x",
            f"Bearer {TOKEN[:-1]}",
            f"Basic {TOKEN}",
            TOKEN,
        ):
            status, answer, headers = strict.call(method, path, {}, Authorization=value)
            assert (status, headers["www-authenticate"]) == (401, "Bearer")
            assert "token" in answer["error"]
    for path in ("/health", "/ready", "/openapi.json", "/docs"):
        assert strict.call("GET", path, Authorization="")[0] == 200
    assert strict.rank(rows=X.tolist())["results"]
    assert TOKEN not in strict.log.read_text()


def test_limits_on_rows_and_bytes(strict: Service) -> None:
    assert len(strict.rank(rows=X.tolist() * 3)["results"]) == MAX_ROWS
    assert "at most 60" in strict.refused({"rows": X.tolist() * 3 + [X[0].tolist()]}, 413)
    assert (
        strict.refused(b" " * MAX_BODY + b"{}", 413)
        == "the body is larger than the 200000 bytes that this service takes."
    )
    # The client sends all of it before it reads, and still sees why it was refused.
    assert strict.refused(b" " * (8 << 20), 413).startswith("the body is larger")
    assert strict.refused(b" " * (MAX_BODY - 2) + b"{}", 400).startswith("give either rows")


def test_a_client_that_waits_for_leave_to_send_is_refused_at_once(strict: Service) -> None:
    head = b"POST /rank HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
    head += f"Authorization: Bearer {TOKEN}\r\nContent-Length: {10**9}\r\n\r\n".encode()
    assert exchange(strict.address, Bad("expect", (head,)), 0, 30)[0] == 413


def test_a_body_that_does_not_arrive_gets_a_408_and_blocks_no_other(strict: Service) -> None:
    whole = framed(
        json.dumps({"rows": X.tolist()}).encode(),
        Shape([], 0, 0, f"Authorization: Bearer {TOKEN}\r\n".encode()),
    )
    slow = Bad("slow", (whole[: whole.index(b"\r\n\r\n") + 10], b""))
    with ThreadPoolExecutor(20) as pool:
        outcomes = [pool.submit(exchange, strict.address, slow, 0.6 * LIMIT, 30) for _ in range(20)]
        for _ in range(10):
            assert strict.rank(rows=X.tolist())["results"]
        for outcome in outcomes:
            assert outcome.result() == (408, "the body did not arrive within 1 seconds.")


def test_bad_requests_get_a_reason_and_good_ones_an_answer(
    strict: Service, first: rw.Model
) -> None:
    header = f"Authorization: Bearer {TOKEN}\r\n".encode()
    shape = Shape(first.feature_names, MAX_ROWS, MAX_BODY, header)
    requests = list(bad_requests(300, shape, seed=11))

    def send(number: int) -> str | None:
        request = requests[number]
        if number % 10 == 0:
            strict.rank(**named(np.random.default_rng(number), shape))  # type: ignore[arg-type]
        return faults(request, *exchange(strict.address, request, 0.75 * LIMIT, 60))

    with ThreadPoolExecutor(16) as pool:
        assert [fault for fault in pool.map(send, range(len(requests))) if fault] == []
    assert strict.process.poll() is None
    assert pairs(strict.rank(rows=X.tolist())) == expected(first, X)
    assert strict.events("failure") + strict.events("server") == []
    assert not [line for line in strict.events("access") if line["status"] >= 500]


# Swapping the model, and stopping.


def replace(target: Path, source: Path) -> None:
    rw.load(source).save(target)


def test_the_model_is_swapped_under_load_without_an_error(models: Path, tmp_path: Path) -> None:
    path = tmp_path / "served"
    shutil.copytree(models / "first", path)
    answers = {name: expected(rw.load(models / name), X) for name in ("first", "second")}
    body = json.dumps({"rows": X.tolist()}).encode()
    done = threading.Event()

    seen: list[tuple[str, list[tuple[Any, float]]]] = []

    def ask() -> None:
        connection = running.connect()
        while not done.is_set():
            connection.request(
                "POST", "/rank", body, {"Content-Type": "application/json", **running.headers}
            )
            answer = connection.getresponse()
            assert answer.status == 200
            content = json.loads(answer.read())
            seen.append((content["model"], pairs(content)))

    with Service(path, tmp_path / "log", "--watch", "0.05", token=TOKEN) as running:
        versions = {"first": running.call("GET", "/ready")[1]["model"]}
        with ThreadPoolExecutor(4) as pool:
            asking = [pool.submit(ask) for _ in range(4)]
            try:
                replace(path, models / "second")  # seen in the files
                wait_for(lambda: running.metric('rankwright_model_swaps_total{result="done"}') == 1)
                versions["second"] = running.call("GET", "/ready")[1]["model"]
                for swaps in range(2, 8):
                    replace(path, models / ("second" if swaps % 2 else "first"))
                    running.process.send_signal(signal.SIGHUP)
                    wait_for(
                        lambda n=swaps: (
                            running.metric('rankwright_model_swaps_total{result="done"}') == n
                        )
                    )
                    enough = len(seen) + 20
                    wait_for(lambda n=enough: len(seen) >= n)
            finally:
                done.set()
            for future in asking:
                future.result()
    by_version = {versions[name]: answers[name] for name in versions}
    assert {version for version, _ in seen} == set(by_version)
    assert all(ranking == by_version[version] for version, ranking in seen)


def test_reload_by_request_and_models_that_are_refused(models: Path, tmp_path: Path) -> None:
    path = tmp_path / "served"
    path.symlink_to(models / "first")

    def point_to(target: Path) -> None:
        new = tmp_path / "new"
        new.symlink_to(target)
        os.replace(new, path)

    with Service(path, tmp_path / "log", "--watch", "0", token=TOKEN) as running:
        version = running.call("GET", "/ready")[1]["model"]
        assert running.call("POST", "/reload")[:2] == (200, {"changed": False, "model": version})
        point_to(models / "narrow")
        status, answer, _ = running.call("POST", "/reload")
        assert status == 409
        assert "other columns" in answer["error"]
        point_to(tmp_path / "nothing")
        assert running.call("POST", "/reload")[0] == 409
        assert running.call("GET", "/ready")[1]["model"] == version
        point_to(models / "second")
        status, answer, _ = running.call("POST", "/reload")
        assert (status, answer["changed"], answer["model"] != version) == (200, True, True)
        assert pairs(running.rank(rows=X.tolist())) == expected(rw.load(models / "second"), X)
        assert running.metric('rankwright_model_swaps_total{result="failed"}') == 2
        assert [event["level"] for event in running.events("model")] == [
            "info",
            "error",
            "error",
            "info",
        ]


def test_a_stop_finishes_the_requests_under_way(
    models: Path, tmp_path: Path, first: rw.Model
) -> None:
    body = json.dumps({"rows": X.tolist()}).encode()
    with Service(models / "first", tmp_path / "log") as running:
        idle = running.connect()
        idle.request("GET", "/health")
        idle.getresponse().read()
        connection = running.connect()
        connection.putrequest("POST", "/rank")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body[:100])
        wait_for(lambda: running.metric("rankwright_requests_in_progress") == 2)
        running.process.send_signal(signal.SIGTERM)
        wait_for(lambda: not accepts(running.address))
        time.sleep(0.3)
        connection.send(body[100:])
        answer = connection.getresponse()
        assert answer.status == 200
        assert pairs(json.loads(answer.read())) == expected(first, X)
        assert running.process.wait(30) == 0
        assert running.events()[-1]["event"] == "stop"


def accepts(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, timeout=5).close()
    except OSError:
        return False
    return True


def test_the_log_is_opened_again_by_a_signal(models: Path, tmp_path: Path) -> None:
    with Service(models / "first", tmp_path / "log") as running:
        running.log.rename(tmp_path / "log.1")
        running.process.send_signal(signal.SIGHUP)
        wait_for(lambda: running.events("model"))
        running.rank(rows=X.tolist())
        wait_for(lambda: running.events("access"))


# The process.

MODULES = """
import json, os, signal, sys, threading, urllib.request
from rankwright.cli import main


def watch(log, body):
    import time
    deadline = time.monotonic() + 100
    address = None
    while time.monotonic() < deadline:
        lines = [json.loads(line) for line in open(log)] if os.path.exists(log) else []
        if any(line["event"] == "ready" for line in lines) and any(line["event"] == "start" for line in lines):
            address = next(line["address"] for line in lines if line["event"] == "start")
            break
        time.sleep(0.05)
    request = urllib.request.Request(address + "/rank", body, {"Content-Type": "application/json"})
    results.append(urllib.request.urlopen(request).status)
    os.kill(os.getpid(), signal.SIGTERM)

model, log, body = sys.argv[1], sys.argv[2], sys.argv[3].encode()
results = []
threading.Thread(target=watch, args=(log, body), daemon=True).start()
sys.argv = ["rankwright", "serve", model, "--port", "0", "--log", log]
try:
    main()
except SystemExit as end:
    results.append(end.code)
print(json.dumps({"results": results, "modules": sorted(sys.modules)}))
"""


def test_the_service_imports_no_training_code_and_no_engine(models: Path, tmp_path: Path) -> None:
    body = json.dumps({"rows": X.tolist()})
    command = [sys.executable, "-c", MODULES, str(models / "first"), str(tmp_path / "log"), body]
    seen = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert seen["results"] == [200, 0]
    heavy = {"sklearn", "lightgbm", "pandas", "polars", "pyarrow", "optuna"}
    assert heavy & {name.split(".")[0] for name in seen["modules"]} == set()
    training = (
        "rankwright.training",
        "rankwright.ranker",
        "rankwright.objectives",
        "rankwright.metrics",
    )
    assert [name for name in seen["modules"] if name.startswith(training)] == []
