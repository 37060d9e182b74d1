"""Latency of a sentence: systems, parameters and the reference."""

from benchmarks.latency import LAYERS, measure


def test_every_structure_is_measured_beside_dense():
    results = {result.system: result for result in measure("tiny", 1, cold=1024)}
    assert {"dense", *(f"{name}, factored" for name in LAYERS if name != "dense")} <= results.keys()
    assert results["dense"].ratio == 1.0
    assert results["phm n=8, factored"].parameters < results["phm n=4, factored"].parameters
    assert results["phm n=4, factored"].parameters < results["dense"].parameters
    assert all(result.ms > 0 for result in results.values())
