"""Cost of serving: formats of a run, measurements in processes of their own, and where they are shown."""

from pathlib import Path

import pytest

from phmrun.exchange.formats import Format
from phmrun.ledger import listing
from phmrun.ledger.wording import SERVING
from phmrun.results.costs import COSTS
from phmrun.sweeps.serving import serve_all

pytestmark = pytest.mark.long


@pytest.fixture
def run(tiny_run):
    """Run of a tiny translator with structured maps."""
    return tiny_run("nmt")


def test_a_factored_file_serves_the_same_outputs_from_fewer_bytes(run):
    exact, small = serve_all(run, [Format("checkpoint"), Format("safetensors", factored=True)])
    assert small["changed"] == exact["changed"] == 0
    assert small["score"] == exact["score"]
    assert small["difference"] < 1e-4
    assert small["sentences"] == exact["sentences"] > 0
    assert small["bytes"] < exact["bytes"]
    assert small["bytes"] == Path(small["path"]).stat().st_size
    assert min(small["single_ms"], small["batch_ms"], small["latency_ratio"], exact["peak_memory"]) > 0
    run.add_bench({f"{SERVING}{item['label']}": item for item in (exact, small)})
    (summary,) = listing.list_runs(run.path.parent)
    assert COSTS["file-size"].of(summary) == small["bytes"]
    assert COSTS["latency"].of(summary) == small["single_ms"]
