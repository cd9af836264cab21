"""Certificates of a private authority."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """Who signs certificates."""

    def __init__(self, folder: Path, name: str) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.file = folder / f"{name}.crt"
        basic = x509.BasicConstraints(ca=True, path_length=None)
        signed = self._builder(self.name, self.key.public_key()).add_extension(basic, critical=True)
        self.file.write_bytes(_pem(signed.sign(self.key, hashes.SHA256())))

    def sign(self, folder: Path, *addresses: str, name: str = "server") -> None:
        """A certificate for addresses or names: `name`.crt and `name`.key in the folder."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [_named(each) for each in addresses]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        signed = self._builder(subject, key.public_key()).add_extension(
            x509.SubjectAlternativeName(names), critical=False
        )
        (folder / f"{name}.crt").write_bytes(_pem(signed.sign(self.key, hashes.SHA256())))
        secret = folder / f"{name}.key"
        secret.touch(mode=0o600)
        secret.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )

    def _builder(self, subject: x509.Name, key: Any) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self.name)
        builder = builder.public_key(key).serial_number(x509.random_serial_number())
        return builder.not_valid_before(now - timedelta(days=1)).not_valid_after(
            now + timedelta(days=1)
        )


def _named(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
