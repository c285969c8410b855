"""A token endpoint for one Java client, with the tokens that a command of the user's prints.

Kafka's Java clients have no callback that another process could serve. They request tokens from an
HTTP server (KIP-768) or read a file; clients of Kafka 3.9 and 4.0 read the file once, and fail when
its token has expired. So ackbench answers the client's requests (RFC 6749, section 4.4) on
loopback, and the token is in no file. The client proves with a random secret that it may have it;
it gets the secret with its other settings, through its FIFO.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import socketserver
import threading
import time
from base64 import b64encode
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Final

from ackbench.experiments.trial.clients.settings.tokens import Token, TokenRefused, fetch_token

_CLIENT: Final = "ackbench"
_REQUEST_TIMEOUT_S: Final = 10.0
_PATH: Final = "/token"
_ALLOWED_URLS: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""The JVM's property without which clients of Kafka 4.0 and later request no token (KIP-1139)."""
_OAUTH_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer"


class TokenEndpoint:
    """A server on loopback, and the thread that it runs on, until it is closed.

    The client requests a token when it is created, and again after four fifths of its lifetime.

    Args:
        command: the value of `TOKEN_COMMAND`.

    Raises:
        TokenRefused: the command gives no token, or one without a signature, which Java's clients
            do not send.
    """

    def __init__(self, command: str) -> None:
        first = fetch_token(command)
        if first.text.endswith("."):
            raise TokenRefused(
                "token_command printed a token without a signature; Java's clients need a signed "
                "one"
            )
        self._secret = secrets.token_urlsafe(32)
        login = b64encode(f"{_CLIENT}:{self._secret}".encode()).decode()
        self._server = _Server(command, first, f"Basic {login}")
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="token endpoint", daemon=True)
        self._thread.start()

    @property
    def jvm_options(self) -> tuple[str, ...]:
        """The options of the client's JVM."""
        return (f"-D{_ALLOWED_URLS}={self._url}",)

    @property
    def settings(self) -> dict[str, str]:
        """The client's properties; they contain the secret."""
        return {
            "sasl.oauthbearer.token.endpoint.url": self._url,
            "sasl.login.callback.handler.class": (
                f"{_OAUTH_PACKAGE}.OAuthBearerLoginCallbackHandler"
            ),
            "sasl.jaas.config": (
                f"{_OAUTH_PACKAGE}.OAuthBearerLoginModule required "
                f'clientId="{_CLIENT}" clientSecret="{self._secret}";'
            ),
        }

    def close(self) -> None:
        """End the server; closing it again has no effect."""
        if not self._closing.is_set():
            self._closing.set()
            self._server.socket.shutdown(socket.SHUT_RDWR)  # ends its wait for a connection
            self._thread.join()
            self._server.server_close()

    @property
    def _url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}{_PATH}"

    def _serve(self) -> None:
        while not self._closing.is_set():
            self._server.handle_request()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, command: str, first: Token, login: str) -> None:
        self.login, self._command, self._unused = login, command, [first]
        self._reuse_until_s = (time.time() + first.expires_s) / 2
        self._fetching = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Handler)

    def token(self) -> str:
        """Return the first token once, unless half its lifetime has passed; then new ones.

        A JVM may take seconds to start.
        """
        with self._fetching:
            if self._unused and time.time() < self._reuse_until_s:
                return self._unused.pop().text
            self._unused.clear()
            return fetch_token(self._command).text

    def handle_error(self, *_: object) -> None:
        """Write nothing: a connection that broke is the client's to report."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _REQUEST_TIMEOUT_S

    def do_POST(self) -> None:
        """Answer a request for a token."""
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        login = self.headers.get("Authorization", "").encode()
        if self.path != _PATH or not hmac.compare_digest(login, self.server.login.encode()):
            self._answer(HTTPStatus.UNAUTHORIZED, {"error": "invalid_client"})
            return
        try:
            token = self.server.token()
        except TokenRefused as error:
            # The client tries again after this status, and not after one that blames the request.
            self._answer(
                HTTPStatus.SERVICE_UNAVAILABLE,
                {"error": "temporarily_unavailable", "error_description": str(error)},
            )
            return
        self._answer(HTTPStatus.OK, {"access_token": token, "token_type": "Bearer"})

    def _answer(self, status: HTTPStatus, document: dict[str, str]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write nothing to the trial's log."""
