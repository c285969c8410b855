"""Print a token of a user that is not signed: `python token_program.py <user> <seconds> [log]`.

It expires after these seconds. With a file, it appends a line there each time it is run.
"""

from __future__ import annotations

import base64
import json
import sys
import time
from pathlib import Path


def encoded(claims: dict[str, object]) -> str:
    """Return a part of a JSON Web Token."""
    return base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")


def unsigned_token(user: str, lifetime_s: float) -> str:
    """Return a token without a signature (RFC 7515, appendix A.5)."""
    now_s = time.time()
    claims = {"sub": user, "iat": now_s, "exp": now_s + lifetime_s}
    return f"{encoded({'alg': 'none'})}.{encoded(claims)}."


if __name__ == "__main__":
    if len(sys.argv) > 3:
        with Path(sys.argv[3]).open("a") as log:
            log.write("run\n")
    print(unsigned_token(sys.argv[1], float(sys.argv[2])))  # noqa: T201 - its output
