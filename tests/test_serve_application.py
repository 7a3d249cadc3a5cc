"""The service in this process: what needs a model that is slow or damaged."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine_files import ENGINES, logged
from rankwright import cli
from rankwright.serve.application import Application
from rankwright.serve.bodies import MemoryBudget
from rankwright.serve.log import JsonLog
from rankwright.serve.model_holder import ModelHolder
from rankwright.serve.refusals import Refusal
from rankwright.serve.requests import parse_query
from rankwright.serve.settings import ServiceSettings, Token, read_token
from small import TRAIN, VALID, quick

ROWS: Any = np.nan_to_num(VALID.X.astype(np.float64))[:5].tolist()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "model"
    quick().fit(TRAIN).save(folder)
    return folder


@pytest.fixture
def app(path: Path) -> Iterator[Application]:
    application = Application(ModelHolder(path), ServiceSettings(time_limit=0.5), JsonLog("off"))
    yield application
    application.close()


def ask(app: Application, body: bytes, path: str = "/rank") -> tuple[int, Any]:
    return asyncio.run(answer(app, body, path))


async def answer(app: Application, body: bytes, path: str = "/rank") -> tuple[int, Any]:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    method = "POST" if path == "/rank" else "GET"
    await app(
        {"type": "http", "method": method, "path": path, "headers": headers, "client": None},
        receive,
        send,
    )
    return sent[0]["status"], json.loads(b"".join(message.get("body", b"") for message in sent))


def query(**options: Any) -> bytes:
    return json.dumps({"rows": ROWS, **options}).encode()


def test_it_is_ready_once_it_is_warm(app: Application) -> None:
    assert ask(app, b"", "/health")[0] == 200
    assert ask(app, b"", "/ready")[0] == 503
    assert ask(app, query()) == (503, {"error": "the service is starting; try again."})
    app.holder.warm_up()
    assert ask(app, b"", "/ready")[0] == 200
    assert ask(app, query())[0] == 200


def test_an_answer_that_takes_too_long_is_given_up(
    app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.holder.warm_up()
    monkeypatch.setattr(app.holder.current, "seconds_per_row", 1.0)
    assert ask(app, query())[0] == 200
    release = threading.Event()
    monkeypatch.setattr(app.holder.current, "rank", lambda query: release.wait(60))
    start = time.monotonic()
    try:
        assert ask(app, query()) == (503, {"error": "the answer was not ready within 0.5 seconds."})
    finally:
        release.set()
    assert time.monotonic() - start < 30


def test_too_many_waiting_requests_are_sent_away(
    app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.holder.warm_up()
    monkeypatch.setattr(app.holder.current, "seconds_per_row", 1.0)
    release = threading.Event()
    rank = app.holder.current.rank
    monkeypatch.setattr(app.holder.current, "rank", lambda query: release.wait(60) and rank(query))

    async def flood() -> list[int]:
        first = [asyncio.create_task(answer(app, query())) for _ in range(64)]
        await asyncio.sleep(0)
        late = await answer(app, query())
        release.set()
        return [late[0], *(status for status, _ in await asyncio.gather(*first))]

    assert asyncio.run(flood()) == [503] + [200] * 64


def test_an_unexpected_error_is_a_500_without_its_details(
    app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.holder.warm_up()

    def fail(query: Any) -> Any:
        raise RuntimeError("a secret")

    monkeypatch.setattr(app.holder.current, "rank", fail)
    status, content = ask(app, query())
    assert status == 500
    assert "internal error" in content["error"]
    assert "secret" not in content["error"]


def test_bodies_share_a_budget() -> None:
    budget = MemoryBudget(10)
    budget.take(8)
    with pytest.raises(Refusal, match="too many requests") as refusal:
        budget.take(3)
    assert refusal.value.status == 503
    budget.take(2)


def test_the_budget_is_returned(app: Application) -> None:
    free = app._budget.free
    ask(app, query())
    app.holder.warm_up()
    ask(app, query())
    ask(app, b"{")
    assert app._budget.free == free


@pytest.mark.parametrize(
    "text", ["", "short", "a token with spaces in it", "umläute-are-not-ascii"]
)
def test_tokens_that_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="at least 16 printable ASCII characters"):
        Token.of(text, "a test")


def test_tokens_of_a_file_and_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RANKWRIGHT_TOKEN", raising=False)
    assert read_token(None) is None
    (tmp_path / "token").write_text("0123456789abcdef\n")
    token = read_token(tmp_path / "token")
    assert token is not None
    assert token.matches(b"0123456789abcdef")
    assert not token.matches(b"0123456789abcdeg")
    assert "0123" not in repr(token)
    monkeypatch.setenv("RANKWRIGHT_TOKEN", "fedcba9876543210")
    with pytest.raises(ValueError, match="given twice"):
        read_token(tmp_path / "token")
    token = read_token(None)
    assert token is not None
    assert token.matches(b"fedcba9876543210")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"port": 70000}, "port must be a whole number from 0 to 65535"),
        ({"max_rows": 0}, "max_rows must be a whole number from 1"),
        ({"max_body": 0}, "max_body must be a whole number from 1"),
        ({"time_limit": float("nan")}, "time_limit must be a number above 0"),
        ({"watch": -1.0}, "watch must be a number from 0"),
    ],
)
def test_settings_that_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ServiceSettings(**options)


def test_addresses_of_this_machine() -> None:
    assert all(
        ServiceSettings(host).is_loopback for host in ("127.0.0.1", "localhost", "::1", "127.9.9.9")
    )
    assert not any(
        ServiceSettings(host).is_loopback for host in ("0.0.0.0", "::", "10.0.0.1", "example.org")
    )


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    monkeypatch.setattr(sys, "argv", ["rankwright", "serve", *arguments])
    try:
        cli.main()
    except SystemExit as end:
        return end.code
    raise AssertionError("the program did not end")


def test_the_command_says_what_is_wrong(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, str(tmp_path / "nothing")) == 1
    assert "there is no model at" in capsys.readouterr().err
    assert run(monkeypatch, str(path), "--host", "192.0.2.1", "--port", "0") == 1
    printed = capsys.readouterr().err
    assert "can be reached from other machines, and there is no token" in printed
    assert "cannot listen on 192.0.2.1 port 0" in printed
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run(monkeypatch, str(path)) == 1
    assert 'pip install "rankwright[serve]"' in capsys.readouterr().err


def test_a_model_that_was_calibrated_meanwhile_is_read_again(tmp_path: Path) -> None:
    ranker = quick().fit(TRAIN)
    ranker.save(tmp_path / "model")
    holder = ModelHolder(tmp_path / "model")
    request = parse_query(
        json.dumps({"rows": ROWS, "calibrated": True}).encode(), holder.current.table, 100
    )
    with pytest.raises(Refusal, match="the model is not calibrated; leave out calibrated"):
        holder.current.rank(request)
    ranker.calibrate(TRAIN, folds=2).save(tmp_path / "model")
    assert holder.reload()
    assert 0 < holder.current.rank(request)["results"][0]["calibrated"] < 4
    assert not holder.reload()


@pytest.fixture(scope="module")
def logged_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """A service with a model of logged features and of ranks within the query."""
    folder = tmp_path_factory.mktemp("logged") / "model"
    quick(within_query="rank").fit(logged()).save(folder)
    holder = ModelHolder(folder)
    holder.warm_up()
    application = Application(holder, ServiceSettings(), JsonLog("off"))
    yield application
    application.close()


@pytest.mark.parametrize("engine", ENGINES)
def test_hits_with_their_logged_features_are_ranked(logged_app: Application, engine: str) -> None:
    data = logged(2, missing=engine != "solr, sparse")
    write_hit, _ = ENGINES[engine]
    rows = range(*data.boundaries[:2])
    hits = [write_hit(data.fields["docid"][row], data.X[row]) for row in rows]
    status, found = ask(logged_app, json.dumps({"hits": hits, "scores": True}).encode())
    assert status == 200, found
    expected = logged_app.holder.current.model.predict(data.subset([0]))
    np.testing.assert_array_equal(found["scores"], expected)
    order = np.argsort(-expected, kind="stable")
    assert [result["id"] for result in found["results"]] == [
        data.fields["docid"][row] for row in order
    ]
    # Lists by feature are the same request.
    columns = {
        name: [None if np.isnan(value) else value for value in data.X[list(rows), number]]
        for number, name in enumerate(data.feature_names)
    }
    body = {"columns": columns, "scores": True, "allow_missing": True}
    assert ask(logged_app, json.dumps(body).encode())[1]["scores"] == found["scores"]


HIT = {"id": "a", "fields": {"documentid": "a", "matchfeatures": {"title": 1, "body": 2}}}


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"hits": [{}]}, 422, "hits[0]: the hit has no logged features"),
        ({"hits": [HIT]}, 422, "hits[0] lacks the feature 'age'. Log every feature"),
        ({"hits": [HIT], "ids": [1]}, 400, "hits have ids of their own"),
        ({"hits": [HIT, HIT], "allow_missing": True}, 422, "an id occurs twice"),
        ({"hits": {}}, 400, "hits must be a list; got an object"),
        ({"hits": [HIT], "rows": []}, 400, "give either rows"),
        ({"columns": []}, 400, "columns must be an object of lists by feature name; got a list"),
        ({"columns": {"title": 1}}, 400, "columns, 'title' must be a list; got 1"),
        ({"columns": {"title": [1], "body": []}}, 400, "the lists of columns have from 0 to 1"),
        ({"columns": {"title": [1]}}, 422, "documents[0] lacks the feature 'body'"),
        ({"columns": {"title": [1] * 2000}}, 413, "columns has 1001 entries"),
    ],
)
def test_refused_hits_and_columns(
    logged_app: Application, body: Any, status: int, message: str
) -> None:
    found, answer = ask(logged_app, json.dumps(body).encode())
    assert (found, answer["error"].startswith(message)) == (status, True), answer


def test_hits_may_have_further_features(logged_app: Application) -> None:
    fields = {"documentid": "a", "matchfeatures": {"title": 1, "body": 2, "age": 3, "more": 4}}
    assert ask(logged_app, json.dumps({"hits": [{"fields": fields}]}).encode())[0] == 200
