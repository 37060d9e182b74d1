"""Measures of style transfer beside BLEU: share of copied sentences, share in the target style.

Copying the source scores 19.7 BLEU on Shakespeare's plays, above every published model. Two measures show it: the share
of outputs that equal their source, and the share that a classifier assigns to the target style (as in Shen et al.
2017). The classifier is a logistic regression on words and word bigrams of the training sentences. Both are also
measured for copied sources and for references; a model should lie in between.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial

from phmrun.families.sequence_to_sequence.data import OutputMeasure
from phmrun.metrics import Score
from phmrun.metrics.accuracy import wilson
from phmrun.progress import note
from phmrun.text.vocabulary import spaced

Pairs = Callable[[], Iterable[tuple[str, str]]]


def measures(train: Pairs) -> Mapping[str, OutputMeasure]:
    """Return the measures of outputs by name: "unchanged" and "style".

    ``train`` yields training pairs without copies; it is read when "style" is first measured.
    """
    return {"unchanged": unchanged, "style": partial(_style, cache(partial(_classifier, train)))}


def unchanged(sources: Sequence[str], outputs: Sequence[str]) -> Score:
    """Return the percentage of outputs that equal their source.

    Words are compared, so the amount and kind of white space between them does not count.
    """
    same = sum(source.split() == output.split() for source, output in zip(sources, outputs, strict=True))
    return _share("unchanged", same, len(outputs), "same:tokens")


def _style(classifier: Callable[[], Callable[[Sequence[str]], int]], _: Sequence[str], outputs: Sequence[str]) -> Score:
    """Return the percentage of outputs in the target style.

    The classifier, trained at the first call, decides. Sources are not read.

    Raises:
        ModuleNotFoundError: scikit-learn is not installed.
    """
    return _share("style", classifier()(outputs), len(outputs), "classifier:logistic|words:1-2|from:train")


def _share(name: str, hits: int, n: int, signature: str) -> Score:
    """Return hits per n in percent, with a Wilson interval; n is at least 1."""
    return Score(name, 100 * hits / n, f"{signature}|ci:wilson95", n, ci=wilson(hits, n))


def _classifier(train: Pairs) -> Callable[[Sequence[str]], int]:
    """Train a classifier of styles.

    Return a function that counts the sentences in the target style. It is logistic regression on words and pairs of
    adjacent words in lower case; sentence pairs with equal sides are left out. A note on stderr names its size.

    Raises:
        ModuleNotFoundError: scikit-learn is not installed.
    """
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    sources, targets = zip(*((source, target) for source, target in train() if source != target), strict=True)
    note(f"style classifier: logistic regression on {len(sources):,} training sentences of each style")
    model = make_pipeline(
        CountVectorizer(tokenizer=_words, token_pattern=None, lowercase=False, ngram_range=(1, 2), binary=True),
        LogisticRegression(max_iter=300, tol=1e-3),
    )
    model.fit([*sources, *targets], [0] * len(sources) + [1] * len(targets))
    return lambda sentences: int(model.predict(list(sentences)).sum())


def _words(sentence: str) -> list[str]:
    """Return the lowercase words of a sentence, with punctuation and clitics split off."""
    return spaced(sentence, True, "punctuation").split()
