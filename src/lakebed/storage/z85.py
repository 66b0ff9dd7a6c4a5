"""Z85, ZeroMQ's base 85: four bytes as five characters."""

from __future__ import annotations

import base64

_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_RFC1924 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
# The standard library has the same arithmetic with another alphabet.
_TO_Z85 = bytes.maketrans(_RFC1924, _Z85)
_FROM_Z85 = bytes.maketrans(_Z85, _RFC1924)


def encode(data: bytes) -> str:
    """The text of ``data``, which is padded with zeros to a multiple of four bytes.

    >>> encode(bytes.fromhex("864fd26fb559f75b"))
    'HelloWorld'
    """
    padded = data + b"\0" * (-len(data) % 4)
    return base64.b85encode(padded).translate(_TO_Z85).decode("ascii")


def decode(text: str) -> bytes:
    """The bytes of ``text``, padding included. Raises ``ValueError`` for what is not Z85.

    >>> decode("HelloWorld").hex()
    '864fd26fb559f75b'
    """
    raw = text.encode("ascii")
    if len(raw) % 5 or raw.translate(None, _Z85):
        raise ValueError("not Z85 text")
    return base64.b85decode(raw.translate(_FROM_Z85))
