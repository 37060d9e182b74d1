"""Prepared corpora go into a directory of the test session's, and W&B stays away unless a test asks for it."""

import pytest


@pytest.fixture(scope="session")
def prepared_corpora(tmp_path_factory):
    return tmp_path_factory.mktemp("prepared")


@pytest.fixture(autouse=True)
def _quiet_surroundings(monkeypatch, prepared_corpora):
    monkeypatch.setenv("PHMRUN_CACHE", str(prepared_corpora))
    monkeypatch.setenv("WANDB_MODE", "disabled")
