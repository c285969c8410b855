"""Gives a librdkafka client its OAUTHBEARER token, and a new one before that expires."""

from __future__ import annotations

import threading
import time
from typing import Final

from ackbench.experiments.trial.clients.librdkafka.library import NO_ERROR, error_buffer, library
from ackbench.experiments.trial.clients.settings.tokens import TokenRefused, fetch_token

_REFRESH_AFTER: Final = 0.8
"""Of a token's lifetime, as librdkafka and the Java clients do."""
_RETRY_S: Final = 5.0


class TokenRefresh:
    """A thread that keeps one client's token valid.

    Args:
        client: the address of the `rd_kafka_t`, which outlives this.
        command: the value of `TOKEN_COMMAND`.

    Raises:
        TokenRefused: the command gives no token, or librdkafka refuses it.
    """

    def __init__(self, client: int, command: str) -> None:
        self._client, self._command = client, command
        self._closing = threading.Event()
        self._thread = threading.Thread(
            target=self._refresh, args=(self._set(),), name="token refresh", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """End the thread: the client is about to be destroyed."""
        self._closing.set()
        self._thread.join()

    def _refresh(self, wait_s: float) -> None:
        while not self._closing.wait(wait_s):
            try:
                wait_s = self._set()
            except TokenRefused as error:
                reason = str(error).encode()
                library().rd_kafka_oauthbearer_set_token_failure(self._client, reason)
                wait_s = _RETRY_S

    def _set(self) -> float:
        """Set a new token and return after how many seconds it needs the next."""
        token, text = fetch_token(self._command), error_buffer()
        code = library().rd_kafka_oauthbearer_set_token(
            self._client,
            token.text.encode(),
            round(token.expires_s * 1000),
            token.principal.encode(),
            None,
            0,
            text,
            len(text),
        )
        if code != NO_ERROR:
            reason = text.value.decode(errors="replace").replace(token.text, "[hidden]")
            raise TokenRefused(f"librdkafka refuses the token: {reason}")
        return max(1.0, _REFRESH_AFTER * (token.expires_s - time.time()))
