"""Chromium's events become exchanges: hop by hop, with the headers of the wire, and nothing of what is no business of anybody."""

from __future__ import annotations

import base64
from typing import Any

from cellwright_kernel.informant.exchanges import MOST_OPEN, MOST_SENT, Exchanges, Loading, response_body
from cellwright_kernel.informant.informant import Informant
from cellwright_kernel.informant.telling import Telling
from cellwright_kernel.wire import Forward
from cellwright_kernel.wire_https import BODY_BYTES, HttpsAsked, HttpsBody, HttpsExchanged, HttpsRequest, HttpsSent

HELLO = HttpsBody(size_bytes=5, data=b"hello")


class _Seen:
    """The events of one browser, and what came of them."""

    def __init__(self) -> None:
        self.sent: list[HttpsSent] = []
        self.exchanges = Exchanges(Informant(lambda: 3, ()).is_told, lambda: 3, self.sent.append)
        self.moment = 0.0

    def asks(self, request_id: str, url: str, method: str = "GET", **fields: Any) -> None:
        request = {"url": url, "method": method, "headers": {}, **fields.pop("request", {})}
        self(request_id, "requestWillBeSent", request=request, **fields)

    def __call__(self, request_id: str, event: str, **fields: Any) -> Loading | None:
        self.moment += 1.0
        said = {"requestId": request_id, "timestamp": self.moment, **fields}
        return self.exchanges.take("session", f"Network.{event}", said)

    def ends(self, request_id: str, body: HttpsBody = HELLO) -> list[HttpsExchanged]:
        loading = self(request_id, "loadingFinished")
        return list(loading.told(body)) if loading else []


def response(status: int = 200, **headers: str) -> dict[str, Any]:
    return {"status": status, "statusText": "OK", "headers": headers, "mimeType": "text/html"}


def places(told: list[HttpsExchanged]) -> list[tuple[str, int, int]]:
    return [(one.request.target, one.status, one.body.size_bytes) for one in told]


def test_each_hop_of_a_redirection_is_an_exchange_with_its_own_headers() -> None:
    seen = _Seen()
    seen.asks("1", "https://shop.test/away?a=1#part")
    seen.asks("1", "https://shop.test/", redirectResponse=response(302, Location="/"), redirectHasExtraInfo=True)
    seen("1", "responseReceivedExtraInfo", statusCode=302, headers={"Location": "/", "Set-Cookie": "a=1\nb=2"})
    seen("1", "responseReceivedExtraInfo", statusCode=200, headers={"Content-Type": "text/html", ":status": "200"})
    seen("1", "responseReceived", response=response(), hasExtraInfo=True)
    told = seen.ends("1")
    assert places(told) == [("/away?a=1", 302, 0), ("/", 200, 5)]
    assert told[0].headers == (("Location", "/"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"))
    assert (told[1].headers, told[1].cell) == ((("Content-Type", "text/html"),), 3)


def test_what_two_connections_tell_of_one_request_is_told_once() -> None:
    seen = _Seen()
    for _ in range(2):
        seen.asks("1", "https://shop.test/away", "POST", timestamp=5.0)
    for _ in range(2):
        seen.asks("1", "https://shop.test/", timestamp=6.0, redirectResponse=response(302))
    for _ in range(2):
        seen("1", "responseReceived", response=response())
    assert places(seen.ends("1")) == [("/away", 302, 0), ("/", 200, 5)]
    assert seen.ends("1") == []
    assert len(seen.sent) == 1


def test_a_page_that_was_in_the_cache_still_has_the_headers_that_it_was_shown_with() -> None:
    seen = _Seen()
    seen.asks("1", "https://shop.test/")
    seen("1", "responseReceivedExtraInfo", statusCode=304, headers={"ETag": "x"})
    seen("1", "responseReceived", response=response(ETag="x", Server="s"), hasExtraInfo=True)
    (one,) = seen.ends("1")
    assert (one.status, one.headers) == (200, (("ETag", "x"), ("Server", "s")))


def test_what_may_change_something_is_told_before_it_is_answered_and_with_its_bytes() -> None:
    seen = _Seen()
    entries = [{"bytes": base64.b64encode(part).decode()} for part in (b"a=", b"\xff")]
    seen.asks("1", "https://shop.test/order", "POST", request={"hasPostData": True, "postDataEntries": entries})
    assert [(one.request.method, one.cell) for one in seen.sent] == [("POST", 3)]
    seen("1", "responseReceived", response=response())
    (one,) = seen.ends("1")
    assert one.request_body == HttpsBody(size_bytes=3, data=b"a=\xff")


def test_a_body_with_a_file_in_it_is_one_that_nobody_saw() -> None:
    seen = _Seen()
    request = {"hasPostData": True, "postDataEntries": [{"bytes": "YQ=="}, {}]}
    seen.asks("1", "https://shop.test/", "POST", request=request)
    seen("1", "responseReceived", response=response())
    (one,) = seen.ends("1")
    assert one.request_body.data is None


def test_the_own_loopback_and_what_is_no_https_are_nobodys_business() -> None:
    seen = _Seen()
    for url in ("https://localhost/", "https://127.0.0.1:8443/", "https://[::1]/", "https://app.localhost/"):
        seen.asks("1", url, "POST")
        seen("1", "responseReceived", response=response())
        assert (url, seen.ends("1")) == (url, [])
    for url in ("data:text/html,a", "blob:https://shop.test/1", "chrome://version/", "http://shop.test/"):
        seen.asks("1", url, "POST")
        seen("1", "responseReceived", response=response())
        assert (url, seen.ends("1")) == (url, [])
    assert seen.sent == []


def test_loopback_that_leads_outside_is_told() -> None:
    informant = Informant(lambda: None, (Forward(host="127.0.0.1", port=8443),))
    assert [informant.is_told("127.0.0.1", port) for port in (8443, 8444)] == [True, False]


def test_a_stream_is_told_when_it_begins_and_once() -> None:
    seen = _Seen()
    seen.asks("1", "https://shop.test/events")
    stream = {**response(), "mimeType": "text/event-stream"}
    loading = seen("1", "responseReceived", response=stream)
    assert loading is not None
    assert not loading.wants_body
    assert places(list(loading.told(HttpsBody(size_bytes=0)))) == [("/events", 200, 0)]
    seen("1", "dataReceived", dataLength=7)
    last = seen("1", "loadingFailed", canceled=True)
    assert last is not None
    assert list(last.told(HttpsBody(size_bytes=7))) == []


def test_a_download_is_told_without_its_body_and_what_never_answered_is_not() -> None:
    seen = _Seen()
    seen.asks("1", "https://shop.test/file")
    seen("1", "responseReceived", response=response())
    loading = seen("1", "loadingFailed", canceled=True)
    assert loading is not None
    assert not loading.wants_body
    seen.asks("2", "https://gone.test/")
    failed = seen("2", "loadingFailed", errorText="net::ERR_FAILED")
    assert failed is not None
    assert list(failed.told(HELLO)) == []


def test_a_body_above_what_is_told_is_not_asked_for() -> None:
    seen = _Seen()
    seen.asks("1", "https://shop.test/")
    seen("1", "responseReceived", response=response())
    seen("1", "dataReceived", dataLength=BODY_BYTES + 1)
    loading = seen("1", "loadingFinished")
    assert loading is not None
    assert not loading.wants_body


def test_what_a_service_worker_made_up_is_not_told() -> None:
    seen = _Seen()
    seen.asks("1", "https://shop.test/")
    seen("1", "responseReceived", response={**response(), "fromServiceWorker": True})
    assert seen.ends("1") == []


def test_what_has_not_ended_is_told_at_the_end() -> None:
    seen = _Seen()
    seen.asks("1", "https://shop.test/long")
    seen("1", "responseReceived", response=response())
    seen.asks("2", "https://shop.test/unanswered")
    assert [loading.hops[0].request.target for loading in seen.exchanges.unfinished() if loading.hops[0].request] == [
        "/long"
    ]


def test_what_stood_on_the_wire_may_be_told_after_the_end() -> None:
    seen = _Seen()
    seen.asks("1", "https://shop.test/")
    seen("1", "responseReceived", response=response(), hasExtraInfo=True)
    loading = seen("1", "loadingFinished")
    assert loading is not None
    assert (loading.lacks_wire, loading.is_complete.is_set()) == (True, False)
    seen("1", "responseReceivedExtraInfo", statusCode=200, headers={"Set-Cookie": "a=1"})
    assert (loading.lacks_wire, loading.is_complete.is_set()) == (False, True)
    (one,) = loading.told(HELLO)
    assert one.headers == (("Set-Cookie", "a=1"),)


def test_what_a_page_that_has_gone_had_begun_to_get_is_not_waited_for_and_is_told_by_another_or_at_the_end() -> None:
    seen = _Seen()
    for number in ("1", "2"):
        seen.asks(number, f"https://shop.test/{number}")
        seen(number, "responseReceived", response=response())
    assert seen.exchanges.is_answered
    seen.exchanges.gone("session")
    assert not seen.exchanges.is_answered
    loading = seen.exchanges.take("parent", "Network.loadingFinished", {"requestId": "1"})  # its frame is another's now
    assert loading is not None
    assert (loading.session, loading.wants_body) == ("parent", True)
    assert [left.request_id for left in seen.exchanges.unfinished()] == ["2"]


def test_what_never_ends_keeps_nothing_new_from_being_told() -> None:
    seen = _Seen()
    for number in range(2 * MOST_OPEN):
        seen.asks(str(number), "https://shop.test/left")
    seen.asks("new", "https://shop.test/")
    seen("new", "responseReceived", response=response())
    assert places(seen.ends("new")) == [("/", 200, 5)]


def test_only_so_many_are_followed_at_once_and_only_so_many_told_to_go_out() -> None:
    seen = _Seen()
    for number in range(MOST_OPEN + 7):
        seen.asks(str(number), "https://shop.test/", "POST")
    assert (seen.exchanges.missed, len(seen.sent)) == (7, MOST_SENT)


def test_of_one_cell_only_so_much_is_told_and_of_the_next_as_much_again() -> None:
    cell = 1
    telling = Telling(lambda: cell)
    request = HttpsRequest(method="POST", host="shop.test", port=443, target="/")
    large = HttpsAsked(number=1, request=request, body=HttpsBody(size_bytes=0, data=b"x" * BODY_BYTES))
    took = 0
    while telling.tell(large):
        took += 1
    assert took == 5  # what may wait; nobody listens
    small = HttpsExchanged(request=request, request_body=HELLO, status=200, body=HELLO)
    told = [telling.tell(small) for _ in range(30_000)]
    assert (told[0], told[-1]) == (True, False)
    cell = 2
    assert telling.tell(small)


def test_a_text_that_was_in_another_encoding_is_told_to_be_utf8() -> None:
    body, is_text = response_body({"body": "Grüße", "base64Encoded": False})
    assert (body.data, is_text) == ("Grüße".encode(), True)
    seen = _Seen()
    seen.asks("1", "https://shop.test/")
    said = {**response(), "headers": {"Content-Type": "text/html; charset=iso-8859-1"}}
    seen("1", "responseReceived", response=said)
    loading = seen("1", "loadingFinished")
    assert loading is not None
    (one,) = loading.told(body, is_text=is_text)
    assert one.headers == (("Content-Type", "text/html; charset=utf-8"),)
