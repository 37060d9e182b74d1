"""README pages of exported directories, with a program that uses the files without phmrun."""

from phmrun.exchange.ctranslate2 import MARK, POSITIONS
from phmrun.text.token_names import has_model
from phmrun.text.vocabularies import Vocabularies
from phmrun.text.vocabulary import BOS, EOS, PAD, UNK

CTRANSLATE2 = """# A Transformer for CTranslate2, written by phmrun

`pip install ctranslate2{package}`, then, in this directory:

```python
import ctranslate2
{imports}
translator = ctranslate2.Translator(".", device="cpu", intra_threads=1)
{setup}lines = open("input.txt", encoding="utf-8").read().splitlines()
results = translator.translate_batch(
    [{encode} for line in lines],
    beam_size={beam},
    length_penalty={alpha:g},
    min_decoding_length=0,
    max_decoding_length={positions},
    max_input_length={longest},
    max_batch_size=64,
)
for result in results:
    tokens = result.hypotheses[0]
    print({decode})
```

A score is log-probability / length^`length_penalty`: what phmrun calls `decoding.penalty: power`. `config.json` adds
the end of the sentence to the source. `{mark}` says which weights these are; its `positions` is the largest number of
tokens of a line with its end, or null. Longer lines are cut off.
"""
ONNX = """# A Transformer for onnxruntime, written by phmrun

`pip install numpy onnxruntime{package}`, then, in this directory:

```python
import json
import numpy as np
import onnxruntime
{imports}
encoder, decoder = (onnxruntime.InferenceSession(f"{{name}}.onnx") for name in ("encoder", "decoder"))
settings = json.load(open("tokens.json", encoding="utf-8"))
numbers, names = {{name: number for number, name in enumerate(settings["source"])}}, settings["target"]
{setup}for line in open("input.txt", encoding="utf-8").read().splitlines():
    source = np.array([[*(numbers.get(token, {unk}) for token in {encode}), {eos}]])
    keys, values = encoder.run(None, {{"source": source}})
    inputs = {{"source": source, "memory_keys": keys, "memory_values": values}}
    inputs |= {{"past_keys": keys[:, :, :, :0], "past_values": values[:, :, :, :0]}}
    newest, tokens = np.array([{bos}]), []
    for _ in range(int({ratio:g} * source.shape[1] + {offset}) - 1):
        scores, inputs["past_keys"], inputs["past_values"] = decoder.run(None, {{"tokens": newest, **inputs}})
        scores[:, [{pad}, {bos}]] = -np.inf
        newest = scores.argmax(1)
        if newest[0] == {eos} or source.shape[1] == 1:
            break
        tokens.append(names[newest[0]])
    print({decode})
```

This search takes the best next token (beam 1). The run's has beam {beam}: it is in `tokens.json`, and phmrun's
`examples/onnx_translate.py` searches with it. A line may have any length. `{mark}` says which weights these are.
"""


def ctranslate2_page(vocabularies: Vocabularies, *, beam: int, alpha: float) -> str:
    """Return a Markdown page on the use of a model for CTranslate2, with the run's beam and length penalty."""
    longest = {"positions": POSITIONS, "longest": POSITIONS - 1, "mark": MARK}
    return CTRANSLATE2.format(**_splitting(vocabularies), **longest, beam=beam, alpha=alpha)


def onnx_page(vocabularies: Vocabularies, *, beam: int, ratio: float, offset: int) -> str:
    """Return a Markdown page on the use of a translator's ONNX graphs, with the run's length limit."""
    tokens = {"pad": PAD, "unk": UNK, "bos": BOS, "eos": EOS, "mark": MARK}
    return ONNX.format(**_splitting(vocabularies), **tokens, beam=beam, ratio=ratio, offset=offset)


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
        "decode": "targets.decode(tokens)",
    }
