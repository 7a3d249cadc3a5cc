"""What a user decides about a service."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import math
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

TOKEN_VARIABLE = "RANKWRIGHT_TOKEN"
SHORTEST_TOKEN = 16
_TOKEN = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True)
class Token:
    """A bearer token, held as a hash; comparing takes the same time wherever a guess differs."""

    digest: bytes = field(repr=False)

    @classmethod
    def of(cls, text: str, source: str) -> Token:
        """Check a token; errors name its ``source``."""
        if not _TOKEN.fullmatch(text) or len(text) < SHORTEST_TOKEN:
            raise ValueError(
                f"the token of {source} must be at least {SHORTEST_TOKEN} printable ASCII characters without spaces; "
                "`openssl rand -hex 32` makes one."
            )
        return cls(hashlib.sha256(text.encode()).digest())

    def matches(self, guess: bytes) -> bool:
        """Compare in constant time."""
        return hmac.compare_digest(self.digest, hashlib.sha256(guess).digest())


def read_token(file: Path | None) -> Token | None:
    """Return the token of a file or of the environment; None where neither has one."""
    text = os.environ.get(TOKEN_VARIABLE)
    if file is None:
        return (
            None
            if text is None
            else Token.of(text.strip(), f"the environment variable {TOKEN_VARIABLE}")
        )
    if text is not None:
        raise ValueError(
            f"a token is given twice: unset {TOKEN_VARIABLE}, or leave out --token-file."
        )
    return Token.of(file.read_text().strip(), str(file))


@dataclass(frozen=True)
class ServiceSettings:
    """Options of a service.

    Parameters
    ----------
    host, port
        Address to listen on; port 0 takes a free one.
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
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: Token | None = None
    max_rows: int = 1000
    max_body: int = 4 << 20
    time_limit: float = 10.0
    watch: float = 2.0

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ValueError(f"port must be from 0 to 65535; got {self.port}.")
        for name, value, least in (("max_rows", self.max_rows, 1), ("max_body", self.max_body, 1)):
            if value < least:
                raise ValueError(f"{name} must be at least {least}; got {value}.")
        if not (math.isfinite(self.time_limit) and self.time_limit > 0):
            raise ValueError(
                f"time_limit must be a positive number of seconds; got {self.time_limit}."
            )
        if not (math.isfinite(self.watch) and self.watch >= 0):
            raise ValueError(f"watch must be a non-negative number of seconds; got {self.watch}.")

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False
