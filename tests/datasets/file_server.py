"""A server of files on this machine, whose addresses say how it misbehaves, and datasets that lie there."""

import hashlib
import http.server
import ssl
from dataclasses import replace

import pytest

from phmrun.datasets import Dataset, File, dataset_dir
from phmrun.datasets.fetch import fetch
from phmrun.errors import ExitCode, PhmrunError

CONTENT = bytes(range(256)) * 2000
SHA = hashlib.sha256(CONTENT).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    """Serves ``files``; addresses decide how: /ok/, /cut/ (breaks off once), /short/ (always), /moved/, …"""

    daemon_threads = True

    def handle_error(self, request, client_address):
        """Nothing is printed of a client that leaves."""

    def __init__(self, certificate=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.scheme = "http"
        if certificate is not None:
            self.scheme = "https"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.files = {"t.en": CONTENT}
        self.moved = {"moved": "/ok/", "loop": "/loop/"}
        self.asked = []
        self.broken = set()

    def url(self, path):
        return f"{self.scheme}://127.0.0.1:{self.server_port}/{path}"


class Handler(http.server.BaseHTTPRequestHandler):
    """Handler of one request."""

    def log_message(self, *arguments):
        """Nothing is printed."""

    def do_GET(self):
        how, name = self.path.strip("/").split("/", 1)
        self.server.asked.append(how)
        if how in self.server.moved:
            self.send_response(302)
            self.send_header("Location", f"{self.server.moved[how]}{name}")
            self.end_headers()
            return
        if how == "error" or name not in self.server.files:
            self.send_error(503 if how == "error" else 404)
            return
        content = self.server.files[name]
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        breaks = how == "short" or (how == "cut" and name not in self.server.broken)
        self.server.broken.add(name)
        self.wfile.write(content[: len(content) // 2 if breaks else None])


def single(*urls, **changes):
    file = replace(File("sub/t.en", tuple(urls), SHA, len(CONTENT), role="en"), **changes)
    return Dataset("some", ("nmt",), "s", "l", "parallel", splits={"train": (file,)})


def fails(dataset, **options):
    with pytest.raises(PhmrunError) as caught:
        fetch(dataset, **options)
    assert caught.value.code is ExitCode.DATA
    return str(caught.value)


def left(dataset):
    return {path.name for path in dataset_dir(dataset).rglob("*") if path.is_file()} - {".fetch.lock"}
