"""Tokens that a program prints: what is one, and what is said where there is none."""

from __future__ import annotations

import base64
import sys
import time
from pathlib import Path

import pytest
from support.token_program import encoded, unsigned_token

from ackbench.experiments.trial.clients.settings.tokens import (
    TOKEN_COMMAND,
    TokenRefused,
    confluent_settings,
    encode_command,
    fetch_token,
    read_token,
)

PROGRAM = Path(__file__).parents[3] / "support" / "token_program.py"


def printing(text: str) -> str:
    """Return the command of a program that prints a text."""
    return encode_command((sys.executable, "-c", f"print({text!r})"))


def test_a_token_has_the_claims_that_the_client_library_needs() -> None:
    """Its principal and when it expires; a signature is not looked at."""
    token = fetch_token(encode_command((sys.executable, str(PROGRAM), "me", "60")))
    assert token.principal == "me"
    assert 50 < token.expires_s - time.time() <= 60
    signed = read_token("it", f"{token.text}c2lnbmF0dXJl")
    assert (signed.principal, signed.expires_s) == (token.principal, token.expires_s)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "opaque",
        "a.b.c",
        f"{encoded({})}.{encoded({'exp': 1e10})}.",
        f"{encoded({})}.{encoded({'sub': 'me'})}.",
        f"{encoded({})}.{encoded({'sub': 'me', 'exp': 'soon'})}.",
        f"{encoded({})}.{encoded({'sub': 'me', 'exp': 'nan'})}.",
        f"{encoded({})}.{encoded({'sub': 'me', 'exp': 10**400})}.",
        f"a.{base64.urlsafe_b64encode(b'[' * 100_000).decode()}.",
        f"{encoded({})}.{encoded({'sub': 'me', 'exp': 1e10})}.x\nanother",
    ],
)
def test_what_is_no_token_is_refused_and_not_shown(text: str) -> None:
    """It may be a secret nevertheless."""
    with pytest.raises(TokenRefused, match="printed no token; allowed: one JSON Web Token") as one:
        read_token("token_command p", text)
    assert not text or text not in str(one.value)


def test_a_token_that_has_expired_is_refused() -> None:
    """The broker would refuse it with a less clear message."""
    with pytest.raises(TokenRefused, match="has expired"):
        read_token("token_command p", unsigned_token("me", -1))


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("/no/such/program",), "did not start: No such file"),
        ((sys.executable, "-c", "import sys; sys.exit('not logged in')"), "ended with 1: not log"),
        ((sys.executable, "-c", "print('secret'); exit(3)"), "ended with 3: no message"),
    ],
)
def test_a_program_that_fails_is_named_with_its_reason(
    command: tuple[str, ...], message: str
) -> None:
    """What it printed is not shown."""
    with pytest.raises(TokenRefused, match=message) as refused:
        fetch_token(encode_command(command))
    assert "\n" not in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_program_that_hangs_is_killed() -> None:
    """Its client would wait for ever."""
    with pytest.raises(TokenRefused, match=r"did not end within 0\.2 s"):
        fetch_token(encode_command(("sleep", "600")), timeout_s=0.2)


def test_clients_of_confluent_kafka_ask_for_tokens_when_they_need_them() -> None:
    """Other clients get what they were given."""
    settings = {TOKEN_COMMAND: encode_command((sys.executable, str(PROGRAM), "me", "60")), "a": "b"}
    given = confluent_settings(settings)
    assert given.keys() == {"a", "oauth_cb"}
    text, expires_s, principal, extensions = given["oauth_cb"]("")
    assert (text.count("."), principal, extensions) == (2, "me", {})
    assert expires_s > time.time()
    assert confluent_settings({"a": "b"}) == {"a": "b"}


def test_the_first_token_of_a_client_is_fetched_before_it_is_made(tmp_path: Path) -> None:
    """An error is one line then, and the program runs once for it."""
    log = tmp_path / "runs"
    command = encode_command((sys.executable, str(PROGRAM), "me", "60", "--log", str(log)))
    given = confluent_settings({TOKEN_COMMAND: command})
    first, second = given["oauth_cb"]("")[0], given["oauth_cb"]("")[0]
    assert first != second
    assert log.read_text().splitlines() == ["run", "run"]
    with pytest.raises(TokenRefused):
        confluent_settings({TOKEN_COMMAND: printing("none")})
