"""Settings that a paper leaves open: marks add up over sources, and vanish when a later source sets the key."""

from phmrun.config import Source, resolve


def unsaid(schema, options_of, *values):
    sources = [Source(f"file {number}", item) for number, item in enumerate(values)]
    return resolve(schema, sources, options_of).config.provenance_values()


def test_marks_add_up(schema, options_of):
    first = {"training": {"clip": 2.0}, "unsaid": {"training.clip": "ours"}}
    second = {"batch": {"size": 7}, "unsaid": {"batch.size": "a guess"}}
    actual = unsaid(schema, options_of, first, second)
    assert actual == {"training.clip": (2.0, "ours"), "batch.size": (7, "a guess")}


def test_they_do_not_change_the_experiment(schema, options_of):
    from phmrun.config import run_id

    marked, bare = (
        resolve(schema, [Source("x", values)], options_of).config
        for values in ({"unsaid": {"training.clip": "ours"}}, {})
    )
    assert run_id(marked, fingerprints={}) == run_id(bare, fingerprints={})
