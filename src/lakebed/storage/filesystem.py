"""Opens the file system that a location is on."""

from __future__ import annotations

from typing import Any

from pyarrow import fs

from lakebed.core.errors import OptionError, StorageError
from lakebed.core.location import Location
from lakebed.core.options import Options
from lakebed.core.secret import Secret

# An endpoint that does not answer fails within seconds, not minutes.
_CONNECT_SECONDS = 3
_REQUEST_SECONDS = 30
_ATTEMPTS = 3


def open_filesystem(location: Location, options: Options) -> fs.FileSystem:
    """The Arrow file system for ``location``.

    Raises ``StorageError`` when the client of the file system is not installed and ``OptionError``
    when options contradict each other. No request is sent to S3.
    """
    if location.is_local:
        return fs.LocalFileSystem()
    if location.scheme == "s3":
        return fs.S3FileSystem(**s3_arguments(options))
    return _open_hdfs(location, options)


def filesystem_path(location: Location) -> str:
    """The path that the Arrow file system of ``location`` takes.

    >>> filesystem_path(Location.parse("s3://bucket/a/b"))
    'bucket/a/b'
    """
    if location.scheme == "s3":
        return (location.authority + location.path).rstrip("/")
    return location.path


def s3_arguments(options: Options) -> dict[str, Any]:
    """The arguments of Arrow's S3 client for these options.

    >>> s3_arguments(Options(s3_endpoint="http://127.0.0.1:9000"))["region"]
    'us-east-1'
    """
    if (options.s3_access_key is None) != (options.s3_secret_key is None):
        raise OptionError(
            "only one of 's3.access_key' and 's3.secret_key' is given",
            fix="give both, or neither to use the AWS environment",
        )
    arguments: dict[str, Any] = {
        "region": options.s3_region or ("us-east-1" if options.s3_endpoint else None),
        "endpoint_override": options.s3_endpoint,
        "connect_timeout": _CONNECT_SECONDS,
        "request_timeout": _REQUEST_SECONDS,
        "retry_strategy": fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
        # A small file is then one PUT instead of a multipart upload of one part.
        "allow_delayed_open": True,
        # Arrow uses path style with an endpoint and virtual hosts without; only a contradiction needs a word.
        "force_virtual_addressing": options.s3_path_style is False,
    }
    for name in ("access_key", "secret_key", "session_token"):
        secret: Secret | None = getattr(options, f"s3_{name}")
        if secret is not None:
            arguments[name] = secret.reveal()
    return arguments


def _open_hdfs(location: Location, options: Options) -> fs.FileSystem:
    host, _, port = location.authority.partition(":")
    try:
        return fs.HadoopFileSystem(
            host or "default",
            int(port or 0),
            user=options.hdfs_user,
            kerb_ticket=options.hdfs_kerberos_ticket,
        )
    except OSError as cause:
        reason = str(cause).splitlines()[0]
        raise StorageError(
            f"{location}: cannot open HDFS",
            expected="Java and Hadoop's client library libhdfs",
            found=reason,
            fix="install them and set JAVA_HOME, HADOOP_HOME, ARROW_LIBHDFS_DIR (where libhdfs.so is) "
            "and CLASSPATH (the output of `hadoop classpath --glob`)",
        ) from cause
