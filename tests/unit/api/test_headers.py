"""Headers of a request by name."""

from gnomon.api.http.requests.headers import headers_of


def test_the_first_of_several_lines_is_found() -> None:
    scope = {"headers": [(b"host", b"a"), (b"accept", b"x"), (b"host", b"b")]}
    assert headers_of(scope) == {b"host": b"a", b"accept": b"x"}
    assert headers_of(scope) is headers_of(scope)


def test_each_request_has_its_own() -> None:
    assert headers_of({"headers": []}) == {}
    assert headers_of({"headers": [(b"host", b"a")]}) == {b"host": b"a"}
