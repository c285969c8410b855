"""Tokens of OAUTHBEARER (KIP-255) that a program of the user's own prints.

The command is a list of words, and no shell reads it. Each client runs it when it is created, and
again before the token expires. The token is in the memory of the client only.
"""

from __future__ import annotations

import base64
import json
import math
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import from_json

from ackbench.experiments.messages.phrases import one_line, shorten
from ackbench.infra.errors import InputError

TOKEN_COMMAND: Final = "ackbench.token.command"  # noqa: S105 - the name of a property
"""ackbench's own property beside librdkafka's: the words of the command, as JSON."""
OAUTHBEARER: Final = "OAUTHBEARER"
"""The SASL mechanism of such tokens."""
COMMAND_TIMEOUT_S: Final = 30.0
_PARTS: Final = 3
_REASON_CHARACTERS: Final = 200


class TokenRefused(InputError):
    """The command gave no token that can be used; one line, without the token."""


@dataclass(frozen=True)
class Token:
    """A bearer token."""

    text: str
    principal: str
    """Its claim `sub`."""
    expires_s: float
    """Its claim `exp`: seconds since the epoch."""


def encode_command(words: tuple[str, ...]) -> str:
    """Return the command as the value of `TOKEN_COMMAND`."""
    return json.dumps(list(words))


def fetch_token(command: str, timeout_s: float = COMMAND_TIMEOUT_S) -> Token:
    """Run the command and return the token that it prints.

    Args:
        command: the value of `TOKEN_COMMAND`.
        timeout_s: how long it may take.

    Raises:
        TokenRefused: it did not start, did not end in time, failed, or printed no usable token.
    """
    words: list[str] = json.loads(command)
    name = f"token_command {shorten(words[0], _REASON_CHARACTERS)}"
    try:
        ended = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False
        )
    except OSError as error:
        raise TokenRefused(f"{name} did not start: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise TokenRefused(f"{name} did not end within {timeout_s:g} s") from error
    if ended.returncode != 0:
        said = ended.stderr.decode(errors="replace").strip().splitlines()
        reason = shorten(one_line(said[-1]), _REASON_CHARACTERS) if said else "no message"
        raise TokenRefused(f"{name} ended with {ended.returncode}: {reason}")
    return read_token(name, ended.stdout.decode(errors="replace").strip())


def read_token(source: str, text: str) -> Token:
    """Return a JSON Web Token (RFC 7519) with what its claims say; its signature is the broker's.

    Args:
        source: where it is from, for the message.
        text: the token.

    Raises:
        TokenRefused: it is none, it has no `sub` or `exp`, or it has expired.
    """
    parts = text.split(".")
    try:
        if len(parts) != _PARTS or any(space.isspace() for space in text):
            raise ValueError(text)  # noqa: TRY301 - one message for all that is no token
        padded = parts[1] + "=" * (-len(parts[1]) % 4)
        claims = from_json(base64.b64decode(padded, altchars=b"-_", validate=True))
        token = Token(text, str(claims["sub"]), float(claims["exp"]))
        if not math.isfinite(token.expires_s):
            raise ValueError(claims["exp"])  # noqa: TRY301 - the same
    except (ValueError, KeyError, TypeError, OverflowError):
        raise TokenRefused(
            f"{source} printed no token; allowed: one JSON Web Token with the claims sub and exp"
        ) from None
    if token.expires_s <= time.time():
        raise TokenRefused(f"{source} printed a token that has expired")
    return token


def confluent_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings for a client of the package confluent_kafka, which calls for tokens.

    The first token is fetched here: an error of the callback is not shown by that package.

    Raises:
        TokenRefused: the command for tokens gives none.
    """
    others = {name: value for name, value in settings.items() if name != TOKEN_COMMAND}
    if TOKEN_COMMAND not in settings:
        return others
    command = str(settings[TOKEN_COMMAND])
    return {**others, "oauth_cb": _token_callback(command, fetch_token(command))}


def _token_callback(
    command: str, first: Token
) -> Callable[[str], tuple[str, float, str, dict[str, str]]]:
    unused = [first]

    def fetch(_config: str) -> tuple[str, float, str, dict[str, str]]:
        token = unused.pop() if unused else fetch_token(command)
        return token.text, token.expires_s, token.principal, {}

    return fetch
