"""A score as JSON."""

from phmrun.metrics import Score


def test_score_as_json_leaves_out_what_is_unset():
    full = Score("BLEU", 34.5678, "nrefs:1|tok:13a", 1000, ci=(33.0, 36.0), extras={"bp": 1.0}, warnings=("careful",))
    bare = Score("accuracy", 0.5, "n:2", 2, unit="tokens")
    assert full.to_json() == {
        "value": 34.5678,
        "signature": "nrefs:1|tok:13a",
        "ci": [33.0, 36.0],
        "n": 1000,
        "unit": "sentences",
        "extras": {"bp": 1.0},
        "warnings": ["careful"],
    }
    assert bare.to_json() == {"value": 0.5, "signature": "n:2", "n": 2, "unit": "tokens"}
