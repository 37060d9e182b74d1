"""One thread, no waiting for the disk, a directory of prepared corpora, and no W&B unless a test asks for it."""

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def prepared_corpora(tmp_path_factory):
    return tmp_path_factory.mktemp("prepared")


@pytest.fixture(autouse=True)
def _quiet_surroundings(monkeypatch, prepared_corpora):
    monkeypatch.setenv("PHMRUN_CACHE", str(prepared_corpora))
    monkeypatch.setenv("WANDB_MODE", "disabled")
    monkeypatch.setattr("phmrun.files.os.fsync", lambda descriptor: None)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
