"""A real S3 protocol server on loopback, for the time of a test session."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import boto3
from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

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
        return _client(self.endpoint)

    def new_bucket(self) -> str:
        """Make an empty bucket; its name."""
        name = f"bucket-{uuid.uuid4().hex[:12]}"
        self.client().create_bucket(Bucket=name)
        return name


@cache
def _client(endpoint: str) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
    )


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Run a server on a free port of 127.0.0.1; it is stopped at the end.

    It serves S3 alone: to find out which of Amazon's services is meant takes moto longer than most answers.
    """
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = create_backend_app("s3")
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=MotoRequestHandler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield S3Server(f"http://127.0.0.1:{server.port}")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
