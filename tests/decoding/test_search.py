"""Sources of all lengths, in batches of all sizes, come back in their order."""

from table_decoder import TableDecoder, sources_of

from phmrun.decoding.beam import Hypothesis
from phmrun.decoding.search import translate

SETTINGS = {"beam": 3, "alpha": 0.6}


def test_order_and_batches_do_not_matter():
    decoder = TableDecoder(20, 0, ending=2.0)
    sources = sources_of(23)
    actual = translate(decoder, sources, batch=8, nbest=2, **SETTINGS)
    for size in (1, 5, 100):
        assert translate(decoder, sources, batch=size, nbest=2, **SETTINGS) == actual
    assert translate(decoder, sources[::-1], batch=8, nbest=2, **SETTINGS) == actual[::-1]
    assert len({tuple(hypotheses[0].tokens) for hypotheses in actual}) > 10


def test_lengths_follow_the_source():
    decoder = TableDecoder(5, 1, ending=-30.0)
    sources = [(4,), (4, 5, 6), (5, 5, 5, 5)]
    actual = translate(decoder, sources, max_length_ratio=1.5, max_length_offset=1, **SETTINGS | {"beam": 2})
    assert [len(hypotheses[0].tokens) + 1 for hypotheses in actual] == [2, 5, 7]


def test_an_empty_source_has_the_empty_output():
    decoder = TableDecoder(8, 0)
    actual = translate(decoder, [(), (4, 5), ()], **SETTINGS)
    assert actual[0] == actual[2] == [Hypothesis([], 0.0, 0.0)]
    assert actual[1] == translate(decoder, [(4, 5)], **SETTINGS)[0]
    assert translate(decoder, [], **SETTINGS) == []
