"""Print a token of a user: `python token_program.py <user> <seconds> [--log FILE] [--key FILE]`.

It expires after these seconds, and is signed if there is a key. With a log, the program appends a
line there each time it is run.
"""

from __future__ import annotations

import argparse
import base64
import json
import time
from pathlib import Path


def encoded(claims: dict[str, object]) -> str:
    """Return a part of a JSON Web Token."""
    return base64url(json.dumps(claims).encode())


def base64url(octets: bytes) -> str:
    """Return octets as RFC 7515 has them: without padding."""
    return base64.urlsafe_b64encode(octets).decode().rstrip("=")


def unsigned_token(user: str, lifetime_s: float) -> str:
    """Return a token without a signature (RFC 7515, appendix A.5)."""
    return f"{encoded({'alg': 'none'})}.{_claims(user, lifetime_s)}."


def signed_token(user: str, lifetime_s: float, key: Path) -> str:
    """Return a token that a private key of the curve P-256 signed (RFC 7518, section 3.4)."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    private = load_pem_private_key(key.read_bytes(), None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    signed = f"{encoded({'alg': 'ES256', 'kid': KEY_ID})}.{_claims(user, lifetime_s)}"
    numbers = decode_dss_signature(private.sign(signed.encode(), ec.ECDSA(SHA256())))
    return f"{signed}.{base64url(b''.join(number.to_bytes(32, 'big') for number in numbers))}"


KEY_ID = "test"


def write_keys(private: Path, public: Path) -> None:
    """Write a new private key, and the public one as a JSON Web Key Set (RFC 7517)."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    point = key.public_key().public_numbers()
    coordinates = {name: base64url(getattr(point, name).to_bytes(32, "big")) for name in ("x", "y")}
    jwk = {"kty": "EC", "crv": "P-256", "kid": KEY_ID, "alg": "ES256", "use": "sig", **coordinates}
    public.write_text(json.dumps({"keys": [jwk]}))


def _claims(user: str, lifetime_s: float) -> str:
    now_s = time.time()
    return encoded({"sub": user, "iat": now_s, "exp": now_s + lifetime_s})


def main() -> None:
    """Read the arguments and print the token."""
    parser = argparse.ArgumentParser()
    parser.add_argument("user")
    parser.add_argument("seconds", type=float)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--key", type=Path)
    arguments = parser.parse_args()
    if arguments.log:
        with arguments.log.open("a") as log:
            log.write("run\n")
    of = (arguments.user, arguments.seconds)
    print(signed_token(*of, arguments.key) if arguments.key else unsigned_token(*of))  # noqa: T201


if __name__ == "__main__":
    main()
