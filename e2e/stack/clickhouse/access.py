"""Who may ask, and what: users with hashed passwords, and how a request names its user.

Passwords are kept as SHA-256, as ClickHouse's own users file can; the front never holds them plain
beyond a request.
"""

import base64
import binascii
import hashlib
import hmac
from typing import NamedTuple

import errors


class User(NamedTuple):
    """A user as configured."""

    name: str
    password_sha256_hex: str
    read_only: bool


class Users:
    """All users, by name."""

    def __init__(self, entries):
        self._users = {}
        for entry in entries:
            user = User(entry["name"], entry["password_sha256_hex"].lower(), entry["read_only"])
            if len(bytes.fromhex(user.password_sha256_hex)) != 32:
                raise ValueError(f"user {user.name}: password_sha256_hex is not 32 bytes of hex")
            self._users[user.name] = user

    def authenticate(self, headers, params):
        """The user that a request proves to be, or error 516."""
        name, password = _credentials(headers, params)
        digest = hashlib.sha256(password.encode("utf-8")).hexdigest()
        user = self._users.get(name)
        # Compared even for an unknown name, so that both refusals take the same time.
        expected = user.password_sha256_hex if user else "0" * 64
        if not hmac.compare_digest(digest, expected) or user is None:
            raise errors.refuse(
                errors.AUTHENTICATION_FAILED,
                f"{name}: Authentication failed: password is incorrect, or there is no user "
                "with such name.",
            )
        return user


def _credentials(headers, params):
    """Name and password from exactly one of: ClickHouse's headers, Basic, the URL."""
    ways = []
    if "X-ClickHouse-User" in headers or "X-ClickHouse-Key" in headers:
        name = headers.get("X-ClickHouse-User", "default")
        ways.append((name, headers.get("X-ClickHouse-Key", "")))
    if "Authorization" in headers:
        ways.append(_basic(headers["Authorization"]))
    if "user" in params or "password" in params:
        ways.append((params.get("user", "default"), params.get("password", "")))
    if len(ways) > 1:
        raise errors.refuse(
            errors.AUTHENTICATION_FAILED,
            "Invalid authentication: use one of the X-ClickHouse headers, Authorization, and URL "
            "parameters, not several.",
        )
    return ways[0] if ways else ("default", "")


def _basic(header):
    scheme, _, value = header.partition(" ")
    try:
        if scheme.lower() != "basic":
            raise ValueError("not Basic")
        text = base64.b64decode(value.strip(), validate=True).decode("utf-8")
    except (ValueError, binascii.Error):
        raise errors.refuse(
            errors.AUTHENTICATION_FAILED, "Invalid authentication: only Basic is understood."
        ) from None
    name, _, password = text.partition(":")
    return name, password
