"""Options of a service."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from rankwright.support import checks

TOKEN_VARIABLE = "RANKWRIGHT_TOKEN"
SHORTEST_TOKEN = 16
_TOKEN = re.compile(rf"[\x21-\x7e]{{{SHORTEST_TOKEN},}}")


@dataclass(frozen=True)
class Token:
    """A bearer token, held as a hash so that it appears in no log or traceback."""

    digest: bytes = field(repr=False)

    @classmethod
    def of(cls, text: str, source: str) -> Token:
        """Return the token of a text, or raise ValueError with its ``source`` if it is not secure."""
        if not _TOKEN.fullmatch(text):
            raise ValueError(
                f"the token of {source} must be at least {SHORTEST_TOKEN} printable ASCII "
                "characters without spaces; `openssl rand -hex 32` makes one."
            )
        return cls(hashlib.sha256(text.encode()).digest())

    def matches(self, guess: bytes) -> bool:
        """Return True if the guess is the token. All guesses take the same time."""
        return hmac.compare_digest(self.digest, hashlib.sha256(guess).digest())


def read_token(file: Path | None) -> Token | None:
    """Return the token of a file or of the environment, or None if neither has a token."""
    text = os.environ.get(TOKEN_VARIABLE)
    if file is None:
        if text is None:
            return None
        return Token.of(text.strip(), f"the environment variable {TOKEN_VARIABLE}")
    if text is not None:
        raise ValueError(
            f"a token is given twice: unset {TOKEN_VARIABLE}, or leave out --token-file."
        )
    return Token.of(file.read_text(encoding="utf-8").strip(), str(file))


@dataclass(frozen=True)
class ServiceSettings:
    """Options of a service.

    Parameters
    ----------
    host, port
        Address to listen on; port 0 takes a free port.
    token
        Bearer token that requests must carry; None for no check.
    max_rows
        Most documents of a request.
    max_body
        Most bytes of a request's body.
    time_limit
        Seconds that a request may take, reading its body included; also how long a stop waits for requests.
    watch
        Seconds between looks at the model's files; 0 never looks.

    Examples
    --------
    >>> ServiceSettings(port=8080, max_rows=500).is_loopback
    True
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: Token | None = None
    max_rows: int = 1000
    max_body: int = 4 << 20
    time_limit: float = 10.0
    watch: float = 2.0

    def __post_init__(self) -> None:
        checks.whole("port", self.port, least=0, most=65535)
        checks.whole("max_rows", self.max_rows, least=1)
        checks.whole("max_body", self.max_body, least=1)
        checks.positive("time_limit", self.time_limit)
        checks.number("watch", self.watch, least=0)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False
