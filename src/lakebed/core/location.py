"""Where files are: one normalised form for local paths, ``file:``, ``s3:`` and ``hdfs:`` URIs.

Text with a scheme is a URI: percent-escapes are decoded, and ``#`` and ``?`` must be escaped. Text
without a scheme is a plain path: every character stands for itself. ``.``, ``..`` and repeated slashes
are resolved here and nowhere else; no symbolic link is followed.

>>> Location.parse("s3a://bucket//a/./b/../c d").uri
's3://bucket/a/c%20d'
>>> Location.parse("/lake/100%").uri
'file:///lake/100%25'
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import quote, unquote_to_bytes

from lakebed.core.errors import InputError

SCHEMES = ("file", "s3", "hdfs")
_CANONICAL = {"file": "file", "s3": "s3", "s3a": "s3", "s3n": "s3", "hdfs": "hdfs"}
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(//)?(.*)", re.DOTALL)
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
# What RFC 3986 allows in a path besides letters, digits and ``-._~``.
_SAFE = "/!$&'()*+,;=:@"


@dataclass(frozen=True, slots=True)
class Location:
    """A directory or file: ``scheme`` is file, s3 or hdfs; ``authority`` the bucket or the name node.

    ``path`` is absolute, decoded and normalised; the root is ``/``.
    """

    scheme: str
    authority: str
    path: str

    @classmethod
    def parse(
        cls, text: str | os.PathLike[str] | Location, default_fs: str | None = None, base: str | None = None
    ) -> Location:
        """The location that ``text`` names.

        A path without a scheme is below ``default_fs`` (Hadoop's ``fs.defaultFS``) if that is given,
        else local; ``~`` is the home directory and a relative path starts at ``base``, by default the
        working directory. Raises ``InputError`` for what is not a location.

        >>> Location.parse("/shop/orders", default_fs="hdfs://nn:8020").uri
        'hdfs://nn:8020/shop/orders'
        """
        if isinstance(text, Location):
            return text
        if not isinstance(text, str | os.PathLike):
            raise InputError("a location is a path or a URI", expected="text or a path", found=repr(text))
        text = os.fspath(text)
        _check_text(text)
        uri = _URI.fullmatch(text)
        if uri is not None and (uri[2] or uri[1].lower() in _CANONICAL):
            return _parse_uri(text, uri[1].lower(), uri[2] is not None, uri[3], default_fs)
        if default_fs is not None:
            root = cls.parse(default_fs)
            if not root.is_local:
                return cls(root.scheme, root.authority, _normal(os.path.join(root.path, text), text))
        local = os.path.join(base or os.getcwd(), os.path.expanduser(text))
        return cls("file", "", _normal(os.path.abspath(local), text))

    @property
    def uri(self) -> str:
        """The URI with percent-escapes; ``parse`` gives the same location back."""
        return f"{self.scheme}://{self.authority}{quote(self.path, safe=_SAFE)}"

    @property
    def hadoop_path(self) -> str:
        """The text that Hadoop's ``Path`` and Spark take: no escapes, and ``s3a`` for S3.

        >>> Location.parse("s3://bucket/a b").hadoop_path
        's3a://bucket/a b'
        """
        scheme = "s3a" if self.scheme == "s3" else self.scheme
        return f"{scheme}://{self.authority}{self.path}"

    @property
    def is_local(self) -> bool:
        """Whether this is a path of this machine."""
        return self.scheme == "file"

    @property
    def name(self) -> str:
        """The last part of the path; empty for a root."""
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> Location:
        """The directory above; a root is its own parent."""
        return Location(self.scheme, self.authority, self.path.rpartition("/")[0] or "/")

    def child(self, relative: str) -> Location:
        """The location of ``relative`` below this one; it can never leave this directory.

        Raises ``InputError`` for an absolute path, a scheme, ``.`` or ``..``, an empty part, a
        backslash or a NUL character.

        >>> Location.parse("/lake").child("dt=2026-11-15/a.parquet").path
        '/lake/dt=2026-11-15/a.parquet'
        """
        reason = _why_not_below(relative)
        if reason is not None:
            raise InputError(
                f"{self}: cannot use {relative!r} as a path below it: {reason}",
                expected="a relative path like 'a/b.parquet'",
            )
        return Location(self.scheme, self.authority, f"{self.path.rstrip('/')}/{relative}")

    __truediv__ = child

    def relative(self, other: str | Location) -> str:
        """The path from here down to ``other``; the inverse of ``child``.

        Raises ``InputError`` if ``other`` is not below this location.

        >>> Location.parse("/lake").relative("file:///lake/a%20b")
        'a b'
        """
        below = other if isinstance(other, Location) else Location.parse(other)
        prefix = self.path.rstrip("/") + "/"
        same = (below.scheme, below.authority) == (self.scheme, self.authority)
        if not same or not below.path.startswith(prefix) or below.path == prefix:
            raise InputError(f"{below} is not below {self}")
        return below.path[len(prefix) :]

    def __str__(self) -> str:
        return self.uri


def _check_text(text: str) -> None:
    if not text:
        raise InputError("a location cannot be empty", fix="pass a directory or a URI")
    if "\0" in text:
        raise InputError(f"a location cannot contain a NUL character; found {text!r}")
    _check_encodable(text)


def _check_encodable(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as cause:
        raise InputError(f"a location must be valid Unicode text; found {text!r}") from cause


def _parse_uri(text: str, scheme: str, slashes: bool, rest: str, default_fs: str | None) -> Location:
    canonical = _CANONICAL.get(scheme)
    if canonical is None:
        raise InputError(
            f"{_without_userinfo(text)}: unknown kind of location '{scheme}'",
            expected=f"a local path or one of {', '.join(s + '://' for s in SCHEMES)}",
        )
    if not slashes:
        # Hadoop writes local files as file:/path.
        if canonical != "file" or not rest.startswith("/"):
            shown = re.sub(r"(?s)^.*@", f"{scheme}:***@", text)
            raise InputError(f"{shown}: expected '//' after '{scheme}:'", fix=f"write {scheme}://…")
        authority, path = "", rest
    else:
        authority, _, path = rest.partition("/")
    authority = _authority(text, canonical, authority, default_fs)
    return Location(canonical, authority, _normal("/" + _decoded(text, path), text))


def _authority(text: str, scheme: str, authority: str, default_fs: str | None) -> str:
    text = _without_userinfo(text)
    if "@" in authority or ("***@" in text and ":" in authority):
        raise InputError(
            f"{text}: a location cannot hold credentials",
            fix="pass them as options, like s3.access_key and s3.secret_key",
        )
    if scheme == "file":
        if authority not in ("", "localhost"):
            raise InputError(f"{text}: a file URI has no host", found=authority, fix=f"write file:///{authority}/…")
        return ""
    if scheme == "s3":
        if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._\-]*", authority) is None:
            raise InputError(f"{text}: no bucket name", expected="s3://bucket/path", found=repr(authority))
        return authority
    if not authority and default_fs is not None and default_fs.startswith("hdfs://"):
        return Location.parse(default_fs).authority
    if authority and re.fullmatch(r"[A-Za-z0-9._\-]+(:\d+)?", authority) is None:
        raise InputError(f"{text}: no name node", expected="hdfs://host:port/path", found=repr(authority))
    return authority.lower()


def _decoded(text: str, path: str) -> str:
    for char in "#?":
        if char in path:
            shown = re.split("[#?]", text)[0]  # what follows may be a key
            raise InputError(f"{shown}{char}…: '{char}' in a URI must be escaped", fix=f"write %{ord(char):02X}")
    if _BAD_ESCAPE.search(path):
        raise InputError(f"{text}: '%' in a URI starts an escape like %20", fix="write %25 for a percent sign")
    try:
        decoded = unquote_to_bytes(path).decode("utf-8")
    except UnicodeDecodeError as cause:
        raise InputError(f"{text}: the escapes are not UTF-8") from cause
    _check_text(decoded or "/")
    return decoded


def _normal(path: str, text: str) -> str:
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if not parts:
                raise InputError(f"{text}: '..' goes above the root")
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def _without_userinfo(text: str) -> str:
    # Greedy: a secret key may itself contain a slash.
    return re.sub(r"//.*@", "//***@", text, flags=re.DOTALL)


def _why_not_below(relative: str) -> str | None:
    """Why ``relative`` cannot be trusted to stay below a directory; None if it can."""
    if not relative:
        return "it is empty"
    if "\0" in relative or "\\" in relative:
        return "it holds a backslash or a NUL character"
    if re.match(r"[A-Za-z][A-Za-z0-9+.\-]*:/", relative):
        return "it names a scheme"
    if relative.startswith("/"):
        return "it is absolute"
    if any(part in ("", ".", "..") for part in relative.split("/")):
        return "it has an empty, '.' or '..' part"
    try:
        relative.encode("utf-8")
    except UnicodeEncodeError:
        return "it is not valid Unicode text"
    return None
