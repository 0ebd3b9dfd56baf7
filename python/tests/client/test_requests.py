"""What the clients send, against a server in memory: bodies, keys, attempts. Both clients do the same."""

from __future__ import annotations

import copy
import io
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tidemill.client import (
    ApiError,
    AsyncClient,
    BudgetExceeded,
    Client,
    Conflict,
    InvalidWorkflow,
    Retries,
    RunOver,
    ServerFailed,
    StreamLost,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    Unreachable,
    UnreadableAnswer,
)
from tidemill.errors import Refused, RunPaused, TidemillError

KEY = "the-admin-key"
QUICK = Retries(attempts=4, seconds=1.0, first=0.001, longest=0.002)
SUBMITTED = {"id": "r", "status": "scheduled", "version": "v"}

Handler = Callable[[httpx.Request], httpx.Response]


class Server:
    """Answers in turn, and keeps the requests."""

    def __init__(self, *answers: httpx.Response | httpx.TransportError | Handler) -> None:
        self.answers = list(answers)
        self.seen: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.seen.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, httpx.TransportError):
            raise answer
        return answer if isinstance(answer, httpx.Response) else answer(request)

    def client(self, **more: Any) -> Client:
        http = httpx.Client(transport=httpx.MockTransport(self))
        return Client("http://server", KEY, retries=QUICK, stream_retries=QUICK, http=http, **more)

    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.seen]


def ok(value: Any = None, status: int = 200) -> httpx.Response:
    return httpx.Response(status, json=value)


def refused(status: int, code: str = "some", headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
    body = {"code": code, "message": "because", "status": status, **more}
    return httpx.Response(status, json=body, headers=headers)


AWAY = httpx.ConnectError("refused")
CUT = httpx.ReadError("cut")


def test_a_run_is_submitted_with_what_was_given_and_nothing_else() -> None:
    server = Server(ok(SUBMITTED, 201))
    run = server.client().run("app:\n  x: 1", {"name": "Ada"}, query="q", options={"max_steps": 5}, extra={"new": 1})
    assert (run.id, run.status, run.version) == ("r", "scheduled", "v")
    (request,) = server.seen
    assert str(request.url) == "http://server/api/v1/runs"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["idempotency-key"].startswith("py-")
    assert server.bodies() == [
        {
            "workflow": "app:\n  x: 1",
            "inputs": {"name": "Ada"},
            "query": "q",
            "options": {"max_steps": 5},
            "new": 1,
        }
    ]


def test_a_workflow_is_a_path_a_text_or_a_mapping(tmp_path: Path) -> None:
    file = tmp_path / "a.yml"
    file.write_text("app: ä\n", encoding="utf-8")
    server = Server(ok(SUBMITTED))
    for workflow in (file, str(file), "app: ä\n", {"app": "ä"}):
        server.client().run(workflow)
    assert [body["workflow"] for body in server.bodies()] == ["app: ä\n"] * 3 + ['{"app": "ä"}']


@pytest.mark.parametrize("arguments", [{}, {"workflow": "a:\n", "app": "x"}])
def test_a_run_is_of_a_workflow_or_of_an_app(arguments: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="not both"):
        Server(ok(SUBMITTED)).client().run(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("failure", [AWAY, CUT, refused(503), refused(429), refused(502), refused(504)])
def test_a_run_is_submitted_again_under_the_same_key(failure: Any) -> None:
    server = Server(failure, failure, ok(SUBMITTED))
    server.client().run("a:\n", {"n": 1})
    assert len(server.seen) == 3
    assert len({request.headers["idempotency-key"] for request in server.seen}) == 1
    assert len({request.content for request in server.seen}) == 1


@pytest.mark.parametrize("failure", [AWAY, refused(429), refused(503), CUT, refused(502)])
def test_a_request_that_may_not_happen_twice_is_sent_again_only_if_it_did_nothing(failure: Any) -> None:
    again = {AWAY: 2, CUT: 1}.get(failure) or {429: 2, 503: 2, 502: 1}[failure.status_code]
    server = Server(failure, ok({"id": "k"}, 201))
    if again == 2:
        server.client().apps.add_key("a")
    else:
        with pytest.raises((Unreachable, ServerFailed)):
            server.client().apps.add_key("a")
    assert len(server.seen) == again


def test_the_import_of_a_snapshot_that_may_have_happened_is_not_repeated() -> None:
    server = Server(refused(503), ok({"id": "r", "status": "scheduled"}, 201))
    with pytest.raises(Unavailable):
        server.client().resume(b'{"tidemill_snapshot": 1}')
    assert len(server.seen) == 1


def test_a_command_and_an_answer_count_once() -> None:
    server = Server(CUT, ok({"accepted": True}, 202))
    run = server.client().open("r")
    run.stop("slow")
    assert server.bodies()[0] == server.bodies()[1]
    run.answer("p", {"action": "ok", "inputs": {}, "key": "mine"})
    run.update({"conversation.n": 1}, key="k")
    bodies = server.bodies()
    assert bodies[0]["key"]
    assert bodies[0]["reason"] == "slow"
    assert bodies[2] == {"action": "ok", "inputs": {}, "key": "mine"}
    assert bodies[3] == {"command": "update_variables", "key": "k", "updates": {"conversation.n": 1}}


def test_attempts_end_with_the_error_of_the_last_one() -> None:
    server = Server(AWAY)
    with pytest.raises(
        Unreachable, match="GET /api/v1/apps: no answer after 4 attempts: ConnectError: refused"
    ) as away:
        server.client().apps.all()
    assert (away.value.may_have_happened, away.value.attempts) == (False, 4)
    server = Server(CUT)
    with pytest.raises(Unreachable) as cut:
        server.client().apps.all()
    assert cut.value.may_have_happened
    with pytest.raises(TooManyRequests):
        Server(refused(429)).client().apps.all()


def test_a_pause_that_the_server_asks_for_is_kept_or_the_error_says_it() -> None:
    server = Server(refused(503, headers={"Retry-After": "9"}), ok({"data": []}))
    with pytest.raises(Unavailable) as busy:
        server.client().apps.all()
    assert busy.value.retry_after == 9.0
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (402, "budget_exceeded", BudgetExceeded),
        (409, "run_over", RunOver),
        (409, "key_taken", Conflict),
        (418, "teapot", ApiError),
        (422, "invalid_workflow", InvalidWorkflow),
        (500, "internal_server_error", ServerFailed),
    ],
)
def test_an_error_has_the_class_of_its_status_or_code(status: int, code: str, kind: type[ApiError]) -> None:
    with pytest.raises(ApiError) as raised:
        Server(refused(status, code, more=1)).client().apps.get("a")
    error = raised.value
    assert type(error) is kind
    assert isinstance(error, Refused)
    assert isinstance(error, TidemillError)
    assert (error.status, error.code, error.message, error.details["more"]) == (status, code, "because", 1)
    assert str(error) == f"because (GET /api/v1/apps/a: {status} {code})"


def test_errors_can_be_copied_to_another_process() -> None:
    diagnostics = [{"message": "a", "line": 3}, {"message": "b"}]
    errors = [
        InvalidWorkflow(422, "invalid_workflow", "no", details={"diagnostics": diagnostics}, retry_after=1.0),
        Unreachable("away", may_have_happened=False, attempts=3),
        StreamLost("lost", run_id="r", position="1-0/2", attempts=3),
    ]
    for error in errors:
        for same in (copy.copy(error), pickle.loads(pickle.dumps(error))):
            assert (type(same), str(same), vars(same)) == (type(error), str(error), vars(error))
    assert str(errors[0]).endswith("\n  line 3: a\n  b")


@pytest.mark.parametrize("body", [b"<html>hello</html>", b"\xff", b'{"error": "no"}', b""])
def test_a_foreign_server_is_named_as_one(body: bytes) -> None:
    for status in (200, 302):
        if status == 200 and body in (b"", b'{"error": "no"}'):
            continue
        with pytest.raises(UnreadableAnswer, match=rf"not one of Tidemill's API \(status {status}\)"):
            Server(httpx.Response(status, content=body)).client().apps.get("a")
    with pytest.raises(ServerFailed, match="not one of Tidemill's API"):
        Server(httpx.Response(500, content=body)).client().apps.get("a")


def test_ids_may_have_any_characters_and_may_not_be_empty() -> None:
    server = Server(ok({}))
    server.client().providers.get("a/b ä")
    assert server.seen[0].url.raw_path == b"/api/v1/providers/a%2Fb%20%C3%A4"
    with pytest.raises(ValueError, match="empty"):
        server.client().open("").show()


def test_pages_are_read_when_they_are_needed() -> None:
    server = Server(ok({"data": [1, 2], "next": "9"}), ok({"data": [3], "next": None}))
    runs = server.client().runs(status="failed", app="a", error="rate limit", since=1.5)
    assert not server.seen
    assert (next(runs), next(runs)) == (1, 2)
    assert len(server.seen) == 1
    assert list(runs) == [3]
    filters = {"status": "failed", "app": "a", "error": "rate limit", "since": "1.5"}
    assert [dict(request.url.params) for request in server.seen] == [
        filters | {"limit": "100"},
        filters | {"limit": "100", "before": "9"},
    ]


def test_an_upload_sends_the_same_file_at_each_attempt(tmp_path: Path) -> None:
    place = tmp_path / "tide.pdf"
    place.write_bytes(b"x" * 600_000)
    opened = io.BytesIO(b"--" + place.read_bytes())
    opened.seek(2)
    for source, name in ((place, None), (place.read_bytes(), "tide.pdf"), (opened, "tide.pdf")):
        server = Server(refused(503), ok({"id": "f"}, 201))
        file = server.client().files.upload(source, name=name, user="me")
        assert [request.content for request in server.seen] == [place.read_bytes()] * 2
        assert server.seen[0].headers["content-type"] == "application/pdf"
        assert dict(server.seen[0].url.params) == {"name": "tide.pdf", "user": "me"}
    assert server.client().files.as_input(file, "document") == {
        "transfer_method": "local_file",
        "upload_file_id": "f",
        "type": "document",
    }


def test_a_stream_that_can_be_read_once_is_sent_once() -> None:
    class Once(io.BytesIO):
        def seekable(self) -> bool:
            return False

    server = Server(refused(503), ok({"id": "f"}, 201))
    with pytest.raises(Unavailable):
        server.client().files.upload(Once(b"abc"), name="a")
    assert len(server.seen) == 1


def test_a_download_does_not_send_the_key(tmp_path: Path) -> None:
    server = Server(httpx.Response(200, content=b"abc"))
    files = server.client().files
    assert files.download({"url": "/files/1?sign=x"}) == b"abc"
    assert files.download("https://elsewhere/a", tmp_path / "a") == b""
    assert [str(request.url) for request in server.seen] == [
        "http://server/files/1?sign=x",
        "https://elsewhere/a",
    ]
    assert all("authorization" not in request.headers for request in server.seen)
    assert [file.name for file in tmp_path.iterdir()] == ["a"]
    with pytest.raises(ValueError, match=r"2 bytes \(bytes_max\)"):
        files.download("/a", bytes_max=2)
    for wrong in ({"name": "a"}, "file:///etc/passwd"):
        with pytest.raises(ValueError, match=r"no url|not an http address"):
            files.download(wrong)


def test_address_and_key_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDEMILL_ADMIN_KEY", raising=False)
    with pytest.raises(ValueError, match="TIDEMILL_ADMIN_KEY"):
        Client()
    with pytest.raises(ValueError, match="http"):
        Client("localhost:8700", KEY)
    monkeypatch.setenv("TIDEMILL_ADMIN_KEY", KEY)
    monkeypatch.setenv("TIDEMILL_URL", "http://there:1/")
    with Client() as client:
        assert repr(client) == "<Client http://there:1>"
        assert KEY not in repr(client._transport.settings)


EVENT = {"type": "graph_run_started", "data": {}, "seq": 1, "ts": 1}


def stream(text: str) -> httpx.Response:
    return httpx.Response(200, text=text, headers={"content-type": "text/event-stream"})


def test_a_stream_without_a_word_is_over_only_if_its_run_is() -> None:
    began = stream(f"id: 1-0\ndata: {json.dumps(EVENT)}\n\n")
    server = Server(began, AWAY, stream(""), refused(503), AWAY, AWAY, AWAY, stream(""), ok({"status": "failed"}))
    assert [event.seq for event in server.client().open("r").events()] == [1]
    asked = [request.headers.get("last-event-id") for request in server.seen]
    assert asked == ["0", "1-0", "1-0", None, None, None, None, "1-0", None]


def test_a_pause_before_a_resume_is_not_taken_for_a_new_one() -> None:
    def event(seq: int, kind: str, **data: Any) -> str:
        return f"id: {seq}-0\ndata: {json.dumps({**EVENT, 'type': kind, 'seq': seq, 'data': data})}\n\n"

    paused = event(1, "graph_run_paused", reasons=[{"TYPE": "scheduled_pause", "message": "stop"}])
    ended = event(2, "graph_run_succeeded", outputs={"a": 1})
    waits, works = (ok({"id": "r", "status": status, "pauses": [], "outputs": {}}) for status in ("paused", "running"))
    server = Server(ok({"accepted": True}, 202), stream(paused + ended), waits, waits, works)
    run = server.client().open("r")
    run.resume()
    assert run.result() == {"a": 1}
    with pytest.raises(RunPaused):
        Server(stream(paused), waits).client().open("r").result()


def test_a_stream_ends_with_an_error_when_its_server_stays_away() -> None:
    with pytest.raises(StreamLost, match="run r could not be continued after 0/0"):
        list(Server(AWAY).client().open("r"))
    with pytest.raises(Unauthorized):
        list(Server(refused(401)).client().open("r"))
    with pytest.raises(UnreadableAnswer):
        list(Server(httpx.Response(302)).client().open("r"))


async def test_the_asynchronous_client_decides_the_same(tmp_path: Path) -> None:
    place = tmp_path / "a.bin"
    place.write_bytes(b"x" * 600_000)
    server = Server(
        CUT,
        ok(SUBMITTED),
        ok({"data": [1], "next": "9"}),
        ok({"data": [2], "next": None}),
        refused(503),
        ok({"id": "f"}),
        httpx.Response(200, content=b"abc"),
    )

    async def handle(request: httpx.Request) -> httpx.Response:
        await request.aread()
        return server(request)

    http = httpx.AsyncClient(transport=httpx.MockTransport(handle))
    async with http, AsyncClient("http://server", KEY, retries=QUICK, http=http) as client:
        run = await client.run("a:\n")
        assert run.id == "r"
        assert [item async for item in client.runs()] == [1, 2]
        await client.files.upload(place)
        assert server.seen[-1].content == server.seen[-2].content == place.read_bytes()
        assert await client.files.download("/a", tmp_path / "b") == b""
    assert (tmp_path / "b").read_bytes() == b"abc"
    assert server.seen[0].headers["idempotency-key"] == server.seen[1].headers["idempotency-key"]


def test_a_key_that_no_header_can_hold_is_refused_without_showing_it() -> None:
    assert Client("http://server", f"{KEY}\n")._transport.settings.key == KEY
    for wrong in (f"{KEY}\nmore", f"{KEY} é", "two words"):
        with pytest.raises(ValueError, match="the key has characters") as refused:
            Client("http://server", wrong)
        assert wrong not in str(refused.value)


def test_the_password_of_an_address_is_not_shown() -> None:
    client = Client("http://me:pass@server/below", KEY)
    assert repr(client) == "<Client http://server/below>"
    for text in (repr(client), repr(client._transport.settings)):
        assert "pass" not in text
        assert KEY not in text
    with pytest.raises(ValueError, match="must begin with http") as refused:
        Client("ftp://me:pass@server", KEY)
    assert "pass" not in str(refused.value)


def test_an_answer_that_cannot_be_read_is_an_error_of_the_client_and_not_tried_again() -> None:
    def broken(_request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=httpx.ByteStream(b"no gzip"))

    for use in (Client.workers, lambda client: list(client.open("r"))):
        server = Server(broken)
        with pytest.raises(UnreadableAnswer, match="DecodingError"):
            use(server.client())
        assert len(server.seen) == 1
    with pytest.raises(UnreadableAnswer, match="has not the form"):
        Server(httpx.Response(200, json=[1])).client().workers()


async def test_an_answer_that_cannot_be_read_is_an_error_of_the_client_for_asyncio() -> None:
    async def broken(_request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=httpx.ByteStream(b"no gzip"))

    client = AsyncClient("http://server", KEY, http=httpx.AsyncClient(transport=httpx.MockTransport(broken)))
    with pytest.raises(UnreadableAnswer, match="DecodingError"):
        await client.workers()
    with pytest.raises(UnreadableAnswer, match="DecodingError"):
        [event async for event in client.open("r")]
    with pytest.raises(UnreadableAnswer, match="DecodingError"):
        await client.files.download("/a")


def test_a_download_without_an_answer_is_an_error_of_the_client(tmp_path: Path) -> None:
    files = Server(httpx.ConnectError("refused")).client().files
    with pytest.raises(Unreachable, match="ConnectError: refused") as lost:
        files.download("http://elsewhere/a?sign=secret", tmp_path / "a")
    assert "secret" not in str(lost.value)
    assert not lost.value.may_have_happened
    assert list(tmp_path.iterdir()) == []


def test_an_input_that_json_cannot_hold_is_refused_with_its_place() -> None:
    with (
        Client("http://server", KEY, http=httpx.Client(transport=httpx.MockTransport(Server()))) as client,
        pytest.raises(TypeError, match=r"^inputs\.letters\.1\.at: pathlib\.\w+ is no JSON value; use None, bool"),
    ):
        client.run("a:\n", {"letters": ["one", {"at": Path("x")}]})
