"""What tests of downloads share."""

import threading

import pytest
from file_server import Server


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("PHMRUN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
