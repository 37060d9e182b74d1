"""Where tests that train run: no waiting for the disk, one directory of prepared corpora, no W&B unless asked for."""

import pytest


@pytest.fixture(scope="session")
def prepared_corpora(tmp_path_factory):
    return tmp_path_factory.mktemp("prepared")


@pytest.fixture(autouse=True)
def _quiet_surroundings(monkeypatch, prepared_corpora):
    monkeypatch.setenv("PHMRUN_CACHE", str(prepared_corpora))
    monkeypatch.setenv("WANDB_MODE", "disabled")
    monkeypatch.setattr("phmrun.files.os.fsync", lambda descriptor: None)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
