"""The token endpoint of a Java client: who gets a token, and what others get."""

from __future__ import annotations

import json
import re
import sys
import time
from base64 import b64encode
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from support.token_program import write_keys

from ackbench.experiments.trial.clients.java.token_endpoint import TokenEndpoint
from ackbench.experiments.trial.clients.settings.tokens import (
    TokenRefused,
    encode_command,
    read_token,
)

PROGRAM = Path(__file__).parents[4] / "support" / "token_program.py"


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[TokenEndpoint]:
    """One whose program logs its runs, and fails once the key is gone."""
    key = tmp_path / "key.pem"
    write_keys(key, tmp_path / "keys.json")
    program = (sys.executable, str(PROGRAM), "me", "60", "--log", str(tmp_path / "runs"))
    made = TokenEndpoint(encode_command((*program, "--key", str(key))))
    yield made
    made.close()
    made.close()


def login_of(endpoint: TokenEndpoint) -> str:
    """Return what the Java client would send: its id and secret (RFC 6749, section 2.3.1)."""
    jaas = endpoint.settings["sasl.jaas.config"]
    words = re.findall(r'client(?:Id|Secret)="([^"]+)"', jaas)
    return "Basic " + b64encode(":".join(words).encode()).decode()


def ask(endpoint: TokenEndpoint, login: str, path: str | None = None) -> tuple[int, dict[str, str]]:
    """Request a token; return the status and the document."""
    url = urlsplit(endpoint.settings["sasl.oauthbearer.token.endpoint.url"])
    connection = HTTPConnection(url.hostname or "", url.port or 0, timeout=30)
    connection.request(
        "POST", path or url.path, "grant_type=client_credentials", {"Authorization": login}
    )
    answer = connection.getresponse()
    document: dict[str, str] = json.loads(answer.read())
    connection.close()
    return answer.status, document


def test_the_client_gets_the_first_token_and_then_new_ones(
    endpoint: TokenEndpoint, tmp_path: Path
) -> None:
    """The program runs once per token."""
    tokens = []
    for runs in (1, 2):
        status, document = ask(endpoint, login_of(endpoint))
        assert (status, read_token("it", document["access_token"]).principal) == (200, "me")
        tokens.append(document["access_token"])
        assert len((tmp_path / "runs").read_text().splitlines()) == runs
    assert tokens[0] != tokens[1]


def test_a_first_token_that_has_grown_old_while_the_jvm_started_is_not_given(
    endpoint: TokenEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java's login refuses a token that has expired, and never asks again."""
    now_s = time.time()
    monkeypatch.setattr(time, "time", lambda: now_s + 31)
    status, _ = ask(endpoint, login_of(endpoint))
    assert status == 200
    assert len((tmp_path / "runs").read_text().splitlines()) == 2


@pytest.mark.parametrize("login", ["Basic bm9ib2R5OmE=", ""])
def test_others_get_no_token(endpoint: TokenEndpoint, login: str) -> None:
    """Any user of the machine can connect to a port of loopback."""
    assert ask(endpoint, login) == (401, {"error": "invalid_client"})


def test_another_path_has_no_token(endpoint: TokenEndpoint) -> None:
    """Only the documented one."""
    assert ask(endpoint, login_of(endpoint), "/other")[0] == 401


def test_a_program_that_fails_later_is_a_status_after_which_the_client_tries_again(
    endpoint: TokenEndpoint, tmp_path: Path
) -> None:
    """The reason is in the document, which Java's clients log."""
    ask(endpoint, login_of(endpoint))
    (tmp_path / "key.pem").unlink()
    status, document = ask(endpoint, login_of(endpoint))
    assert (status, document["error"]) == (503, "temporarily_unavailable")
    assert "ended with 1: FileNotFoundError" in document["error_description"]


def test_the_jvm_may_request_tokens_of_this_endpoint_only(endpoint: TokenEndpoint) -> None:
    """Kafka 4 permits none by default."""
    url = endpoint.settings["sasl.oauthbearer.token.endpoint.url"]
    assert endpoint.jvm_options == (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}",)
    assert url.startswith("http://127.0.0.1:")


def test_a_token_without_a_signature_is_refused_in_one_line() -> None:
    """Java's clients would refuse it with a stack trace."""
    with pytest.raises(TokenRefused, match="without a signature; Java's clients need a signed one"):
        TokenEndpoint(encode_command((sys.executable, str(PROGRAM), "me", "60")))
