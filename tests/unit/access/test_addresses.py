"""Which addresses a webhook may reach."""

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.access.addresses import AddressGuard
from gnomon.settings import TargetSettings

GUARD = AddressGuard()

REFUSED = [
    "0.0.0.0", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254",
    "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.168.1.1", "198.18.0.1", "224.0.0.1",
    "239.255.255.255", "240.0.0.1", "255.255.255.255",
    "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "fec0::1", "ff02::1", "ff0e::1",
    "2001:db8::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254",
    "::ffff:7f00:1", "::127.0.0.1", "2002:7f00:1::", "2002:a00:1::1", "2002:c0a8:101::",
    "64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2001:0:102:304::f5ff:fffe",
    "::ffff:0:127.0.0.1", "192.88.99.1", "168.63.129.16", "::ffff:168.63.129.16", "100.100.100.200",
    "3fff::1", "3fff:fff::1", "5f00::1", "fd00:ec2::254", "fd20:ce::254",
]  # fmt: skip
PUBLIC = [
    "1.1.1.1", "93.184.216.34", "100.63.255.255", "100.128.0.1", "172.15.255.255", "172.32.0.1",
    "192.167.255.255", "2606:4700:4700::1111", "::ffff:1.1.1.1", "64:ff9b::1.1.1.1",
    "2002:101:101::1",
]  # fmt: skip


@pytest.mark.parametrize("address", REFUSED)
def test_what_is_not_of_the_public_internet_is_refused(address: str) -> None:
    assert GUARD.refuses(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_the_rest_is_not(address: str) -> None:
    assert not GUARD.refuses(address)


@given(st.ip_addresses(v=4))
def test_however_an_address_is_wrapped_it_is_judged_alike(address: IPv4Address) -> None:
    refused = GUARD.refuses(str(address))
    number = int(address)
    assert GUARD.refuses(str(IPv6Address(0xFFFF << 32 | number))) == refused
    assert GUARD.refuses(str(IPv6Address(0x64FF9B << 96 | number))) == refused
    assert GUARD.refuses(str(IPv6Address(0x2002 << 112 | number << 80))) == refused
    assert GUARD.refuses_host(f"{number}") == refused
    assert GUARD.refuses_host(f"0x{number:x}") == refused


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST", "localhost.", "api.localhost", "127.0.0.1", "127.0.0.1.", "127.1",
     "2130706433", "0x7f000001", "0177.0.0.1", "::1", "::ffff:127.0.0.1", "0",
     "\uff11\uff12\uff17.\uff10.\uff10.\uff11", "127\u30020\uff0e0\uff611",
     "\u24db\u24de\u24d2alhost", "\uff2cocalhost", "metadata.google.internal",
     "METADATA.google.internal.", "metadata.goog",
     "metadata\u3002google\u3002internal"],
)  # fmt: skip
def test_hosts_that_are_refused_addresses(host: str) -> None:
    assert GUARD.refuses_host(host)


@pytest.mark.parametrize(
    "host",
    ["example.com", "localhost.example.com", "1.1.1.1", "10.0.0.1.example.com", "127.0.0.1.nip.io",
     "1.2.3.4.5", "0xyz", "999", "4294967296", "1.999.1.1", "a..b", "0x-1", "5.0x-5", "0x_1"],
)  # fmt: skip
def test_hosts_that_are_not(host: str) -> None:
    # "999" is the address 0.0.3.231, which nobody may reach.
    assert GUARD.refuses_host(host) == (host == "999")


def test_networks_can_be_allowed() -> None:
    guard = AddressGuard(["10.1.0.0/16", "127.0.0.2/32", "fd00::/8"])
    assert not guard.refuses("10.1.2.3")
    assert not guard.refuses("::ffff:10.1.2.3")
    assert not guard.refuses("64:ff9b::10.1.2.3")
    assert not guard.refuses("fd00::1")
    assert guard.refuses("10.2.0.1")
    assert guard.refuses("127.0.0.1")
    assert guard.refuses_host("localhost")
    assert not AddressGuard(["127.0.0.0/8"]).refuses_host("localhost")


def test_a_metadata_service_is_allowed_only_by_its_own_address() -> None:
    wide = AddressGuard(["0.0.0.0/0", "::/0"])
    assert not wide.refuses("169.254.1.1")
    for address in ("169.254.169.254", "168.63.129.16", "::ffff:169.254.169.254", "fd00:ec2::254",
                    "fd00:ec2::254%1", "fd00:ec2::254%eth0"):  # fmt: skip
        assert wide.refuses(address)
    exact = AddressGuard(["169.254.169.254/32"])
    assert not exact.refuses("169.254.169.254")
    assert exact.refuses("168.63.129.16")


@pytest.mark.parametrize("text", ["10.0.0.1/8", "ten", "10.0.0.0/33"])
def test_what_is_not_a_network_is_said_at_the_start(text: str) -> None:
    with pytest.raises(ValueError, match=r"targets\.allow"):
        TargetSettings(allow=(text,))
