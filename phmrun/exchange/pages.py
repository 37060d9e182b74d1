"""README pages of exported directories, with a program that uses the files without phmrun."""

from pathlib import Path

from phmrun.exchange.ctranslate2 import MARK, POSITIONS
from phmrun.text.token_names import has_model
from phmrun.text.vocabularies import Vocabularies
from phmrun.text.vocabulary import BOS, EOS, PAD, UNK

CTRANSLATE2 = Path(__file__).with_name("ctranslate2.txt")
ONNX = Path(__file__).with_name("onnx.txt")


def ctranslate2_page(vocabularies: Vocabularies, *, beam: int, alpha: float) -> str:
    """Return a Markdown page on the use of a model for CTranslate2, with the run's beam and length penalty."""
    longest = {"positions": POSITIONS, "longest": POSITIONS - 1, "mark": MARK}
    return CTRANSLATE2.read_text(encoding="utf-8").format(**_splitting(vocabularies), **longest, beam=beam, alpha=alpha)


def onnx_page(vocabularies: Vocabularies, *, beam: int, ratio: float, offset: int) -> str:
    """Return a Markdown page on the use of a translator's ONNX graphs, with the run's length limit."""
    tokens = {"pad": PAD, "unk": UNK, "bos": BOS, "eos": EOS, "mark": MARK}
    return ONNX.read_text(encoding="utf-8").format(
        **_splitting(vocabularies), **tokens, beam=beam, ratio=ratio, offset=offset
    )


def _splitting(vocabularies: Vocabularies) -> dict[str, str]:
    """Return parts of a program that splits and joins text by the SentencePiece models, or at spaces without them.

    The keys are package, imports, setup, encode and decode.
    """
    if not has_model(vocabularies.source):
        return {"package": "", "imports": "", "setup": "", "encode": "line.split()", "decode": '" ".join(tokens)'}
    names = ("subwords", "subwords") if vocabularies.joint else ("source", "target")
    lines = [
        f'{side} = sentencepiece.SentencePieceProcessor(model_file="{name}.model")\n'
        for side, name in zip(("sources", "targets"), names, strict=True)
    ]
    return {
        "package": " sentencepiece",
        "imports": "import sentencepiece\n",
        "setup": "".join(lines),
        "encode": "sources.encode(line, out_type=str)",
        "decode": 'targets.decode(tokens).replace("▁", " ").strip()',
    }
