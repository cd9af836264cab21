"""Which requests a foreign web page may have made."""

import pytest

from gnomon.api.http.bounds.web_pages import names_loopback, refusal

HOST = "127.0.0.1:8080"


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8080",
        "LOCALHOST:1",
        "127.0.0.1",
        "127.9.9.9:8080",
        "[::1]",
        "[::1]:80",
        f"127.0.0.1:{'0' * 100}80",  # too long to be remembered
    ],
)
def test_names_of_this_machine(host: str) -> None:
    assert names_loopback(host)


@pytest.mark.parametrize(
    "host",
    [None, "", "evil.example", "evil.example:8080", "localhost.evil.example", "evil.localhost",
     "127.0.0.1.nip.io", "10.0.0.1:8080", "[::2]:80", "[evil.example]", "localhost:evil", "0x7f.1",
     "::1:", "0.0.0.0", "user@localhost", "evil" * 100],
)  # fmt: skip
def test_names_that_somebody_else_decides_about(host: str | None) -> None:
    assert not names_loopback(host)
    assert "use http://127.0.0.1" in (refusal(host, None, None, "1.1") or "")


@pytest.mark.parametrize("origin", [None, f"http://{HOST}", f"https://{HOST}"])
@pytest.mark.parametrize("site", [None, "none", "same-origin"])
def test_the_own_page_and_programs_may_ask(origin: str | None, site: str | None) -> None:
    assert refusal(HOST, origin, site, "1.1") is None


@pytest.mark.parametrize(
    "origin",
    ["null", "", "http://evil.example", "http://127.0.0.1:3000", "http://127.0.0.1",
     f"http://{HOST}.evil.example", f"http://evil.example/http://{HOST}", "chrome-extension://abc"],
)  # fmt: skip
def test_an_origin_that_is_not_the_own(origin: str) -> None:
    assert "another origin" in (refusal(HOST, origin, None, "1.1") or "")


@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "surprise"])
def test_a_site_that_is_not_the_own(site: str) -> None:
    assert "another site" in (refusal(HOST, None, site, "1.1") or "")


@pytest.mark.parametrize("host", [None, ""])
@pytest.mark.parametrize("version", ["1", "1.0"])
def test_a_program_that_speaks_http_1_0_names_no_host(host: str | None, version: str) -> None:
    assert refusal(host, None, None, version) is None
    assert "another origin" in (refusal(host, "http://evil.example", None, version) or "")
    assert "another origin" in (refusal(host, "http://", None, version) or "")
    assert "another site" in (refusal(host, None, "cross-site", version) or "")
    assert "Host" in (refusal("evil.example", None, None, version) or "")
    assert "Host" in (refusal(host, None, None, "1.1") or "")
