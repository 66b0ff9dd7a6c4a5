"""A real S3 protocol server on loopback, for the time of a test session."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import boto3
from moto.server import ThreadedMotoServer

ACCESS_KEY = "test-access-key"
SECRET_KEY = "test-secret-key"


@dataclass(frozen=True)
class S3Server:
    """A running server; buckets are never shared between tests."""

    endpoint: str

    def options(self) -> dict[str, Any]:
        """The options with which Lakebed reaches the server."""
        return {"s3_endpoint": self.endpoint, "s3_access_key": ACCESS_KEY, "s3_secret_key": SECRET_KEY}

    def client(self) -> Any:
        """Amazon's own client, to look at the server from outside."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
        )

    def new_bucket(self) -> str:
        """Make an empty bucket; its name."""
        name = f"bucket-{uuid.uuid4().hex[:12]}"
        self.client().create_bucket(Bucket=name)
        return name


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Run a server on a free port of 127.0.0.1; it is stopped at the end."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield S3Server(f"http://{host}:{port}")
    finally:
        server.stop()
