"""A data directory, and servers of downloads."""

import shutil
import subprocess
import threading
from contextlib import contextmanager

import pytest
from file_server import Server


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("PHMRUN_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("PHMRUN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("phmrun.datasets.fetch.PAUSE", 0)
    with serving(Server()) as server:
        yield server


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """A certificate for this machine, with its key, signed by itself."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    path = tmp_path_factory.mktemp("tls") / "here.pem"
    options = "-x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=127.0.0.1"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(path), "-out", str(path) + ".crt"]
    subprocess.run(["openssl", "req", *options.split(), *names], check=True, capture_output=True)
    with path.open("a") as both:
        both.write(path.with_name("here.pem.crt").read_text())
    return path


@pytest.fixture
def secure_server(request, server, certificate, monkeypatch):
    """A server with TLS; its certificate is trusted where the parameter is true."""
    if request.param:
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", f"{certificate}.crt")
    else:
        monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    with serving(Server(certificate)) as secure:
        yield secure


@contextmanager
def serving(server):
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
