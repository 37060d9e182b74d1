"""One thread, prepared corpora in a directory of the test session's, and no W&B unless a test asks for it."""

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
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
