"""Trees that need no model: by hand, and as weak as a baseline should be."""

from phmrun.datasets import builtin
from phmrun.tasks.parse.predictor import neighbour_baseline
from phmrun.text import conllu


def test_by_hand():
    train = [(["DET", "NOUN", "VERB"], [2, 3, 0], ["det", "nsubj", "root"])]
    parses = neighbour_baseline(train, [["DET", "NOUN", "VERB", "ADJ"], ["NOUN"]])
    assert parses == [([2, 3, 0, 3], ["det", "nsubj", "root", "dep"]), ([0], ["nsubj"])]


def test_it_is_weak_on_the_builtin_treebank(tmp_path):
    folder = builtin.unpack("treebank", tmp_path)
    train, test = (conllu.load(folder / f"{split}.conllu") for split in ("train", "test"))
    parses = neighbour_baseline(((item.upos, item.heads, item.deprels) for item in train), (item.upos for item in test))
    gold = [arc for item in test for arc in zip(item.heads, item.deprels, strict=True)]
    actual = [arc for heads, labels in parses for arc in zip(heads, labels, strict=True)]
    attached = sum(first[0] == other[0] for first, other in zip(actual, gold, strict=True)) / len(gold)
    labelled = sum(first == other for first, other in zip(actual, gold, strict=True)) / len(gold)
    assert 0.3 < labelled <= attached < 0.6
