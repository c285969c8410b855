"""The Java clients' security properties, from librdkafka's, which an experiment names.

Both clients of a sweep have one section `security`, so that they connect as one principal. PEM
files are read by ackbench and passed as text (KIP-651): librdkafka has the certificate and the key
in two files, the Java clients in one. The command for tokens stays what it is (`java.dialect`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ackbench.experiments.trial.clients.settings.tokens import OAUTHBEARER, TOKEN_COMMAND
from ackbench.infra.errors import InputError

_LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_TRANSLATED: Final = frozenset(
    {
        "security.protocol",
        "enable.ssl.certificate.verification",
        "ssl.endpoint.identification.algorithm",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.key.location",
        "ssl.key.pem",
        "ssl.key.password",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "sasl.mechanism",
        "sasl.username",
        "sasl.password",
    }
)
"""librdkafka's properties that have a counterpart."""
_PKCS8: Final = ("-----BEGIN PRIVATE KEY-----", "-----BEGIN ENCRYPTED PRIVATE KEY-----")


def refuse_unsupported(properties: Mapping[str, str]) -> None:
    """Check that the Java clients can have these properties; no file or variable is read.

    Args:
        properties: librdkafka's, by their canonical names; secrets may be references.

    Raises:
        InputError: one has no counterpart in the Java clients, or another value is needed.
    """
    for name in sorted(set(properties) - _TRANSLATED - {TOKEN_COMMAND}):
        raise InputError(f"the Java clients have no counterpart of librdkafka's {name}")
    if properties.get("enable.ssl.certificate.verification", "true").lower() != "true":
        raise InputError(
            "enable.ssl.certificate.verification is false; allowed for Java clients: true"
        )
    if _has_sasl(properties):
        mechanism = properties.get("sasl.mechanism", "GSSAPI")
        if mechanism == OAUTHBEARER and TOKEN_COMMAND not in properties:
            raise InputError(
                f"sasl.mechanism is {mechanism} without a token_command; allowed for Java clients: "
                "with one"
            )
        if mechanism not in (*_LOGIN_MODULES, OAUTHBEARER):
            allowed = ", ".join((*_LOGIN_MODULES, OAUTHBEARER))
            raise InputError(f"sasl.mechanism is {mechanism}; allowed for Java clients: {allowed}")
    for name in ("ssl.certificate", "ssl.key", "ssl.ca"):
        if f"{name}.location" in properties and f"{name}.pem" in properties:
            raise InputError(f"{name}.location and {name}.pem are both given; allowed: one of them")


def java_security(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the Java clients' properties for librdkafka's.

    Without `ssl.ca.location` and `ssl.ca.pem`, librdkafka trusts the certificate authorities of the
    operating system, and the Java clients those of their JVM.

    Args:
        properties: librdkafka's, by their canonical names, with references resolved.

    Raises:
        InputError: as `refuse_unsupported`; or a file cannot be read, or is not of the kind that
            the Java clients need.
    """
    refuse_unsupported(properties)
    if not properties:
        return {}
    protocol = properties.get("security.protocol", "plaintext").upper()
    java = {"security.protocol": protocol}
    if protocol.endswith("SSL"):
        java |= _host_check(properties) | _trusted(properties) | _own_certificate(properties)
    return java | (_login(properties) if _has_sasl(properties) else {})


def _has_sasl(properties: Mapping[str, str]) -> bool:
    return properties.get("security.protocol", "").lower().startswith("sasl")


def _host_check(properties: Mapping[str, str]) -> dict[str, str]:
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https")
    return {"ssl.endpoint.identification.algorithm": "" if algorithm == "none" else algorithm}


def _trusted(properties: Mapping[str, str]) -> dict[str, str]:
    certificates = _pem(properties, "ssl.ca")
    if certificates is None:
        return {}
    return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": certificates}


def _own_certificate(properties: Mapping[str, str]) -> dict[str, str]:
    if "ssl.keystore.location" in properties:
        names = ("ssl.keystore.location", "ssl.keystore.password")
        given = {name: properties[name] for name in names if name in properties}
        return {"ssl.keystore.type": "PKCS12", **given}
    chain = _pem(properties, "ssl.certificate")
    if chain is None:
        return {}
    key = _pem(properties, "ssl.key") or ""
    if not any(header in key for header in _PKCS8):
        raise InputError(
            f"{properties.get('ssl.key.location', 'ssl.key.pem')} has no private key in PKCS #8, "
            "which the Java clients need; allowed: what `openssl pkcs8 -topk8` makes of it"
        )
    password = {name: properties[name] for name in ("ssl.key.password",) if name in properties}
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": chain,
        "ssl.keystore.key": key,
        **password,
    }


def _pem(properties: Mapping[str, str], name: str) -> str | None:
    """Return the text of `<name>.pem`, or of the file `<name>.location`."""
    path = properties.get(f"{name}.location")
    if path is None:
        return properties.get(f"{name}.pem")
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a PEM file"
        raise InputError(f"cannot read {name}.location {path}: {reason}") from error


def _login(properties: Mapping[str, str]) -> dict[str, str]:
    mechanism = properties["sasl.mechanism"]
    if mechanism == OAUTHBEARER:
        return {"sasl.mechanism": mechanism, TOKEN_COMMAND: properties[TOKEN_COMMAND]}
    options = {
        "username": properties.get("sasl.username", ""),
        "password": properties.get("sasl.password", ""),
    }
    words = " ".join(f'{name}="{_quoted(value)}"' for name, value in options.items())
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{_LOGIN_MODULES[mechanism]} required {words};",
    }


def _quoted(value: str) -> str:
    """Escape a value within the double quotes of a JAAS configuration."""
    return value.replace("\\", "\\\\").replace('"', '\\"')
