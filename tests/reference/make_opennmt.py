"""Record a small Transformer of OpenNMT/OpenNMT-py: position vectors, logits, gradient, a step, its beam search.

python tests/reference/make_opennmt.py GIT_DIRECTORY
"""

import sys
import types

import torch
from recording import Source, checked_out, empty_packages, record
from torch import Tensor, nn

from phmrun.text.vocabulary import BOS, EOS, PAD, UNK

SOURCE = Source(
    repository="https://github.com/OpenNMT/OpenNMT-py",
    commit="97111d97551c24857076a4102eabdb468b35cff4",
    license="MIT",
    files=(
        *("LICENSE.md", "onmt/constants.py", "onmt/encoders", "onmt/decoders", "onmt/modules"),
        *("onmt/utils/misc.py", "onmt/utils/rnn_factory.py", "onmt/translate"),
    ),
    changes="onmt's own package files are not imported; biases of attention as before version 3.0; position vectors "
    "are float32; softmax stays float64; the search reads tables of logits; loss as onmt/utils/loss.py:84 / its tokens",
)
WIDTH, HEADS, INNER, LAYERS, WORDS, BEAM, LONGEST, SEARCHES = 8, 2, 16, 2, 12, 3, 40, 8
PARTS = {
    "encoder.transformer": "encoder",
    "decoder.transformer_layers": "decoder",
    "self_attn.linear_query": "attention.block.project.0",
    "self_attn.linear_keys": "attention.block.project.1",
    "self_attn.linear_values": "attention.block.project.2",
    "self_attn.final_linear": "attention.block.output",
    "context_attn.linear_query": "cross.block.project.0",
    "context_attn.linear_keys": "cross.block.project.1",
    "context_attn.linear_values": "cross.block.project.2",
    "context_attn.final_linear": "cross.block.output",
    "feed_forward.w_1": "feedforward.block.expand",
    "feed_forward.w_2": "feedforward.block.contract",
    "feed_forward.layer_norm": "feedforward.norm",
    "layer_norm_1": "attention.norm",
    "layer_norm_2": "cross.norm",
    "encoder.layer_norm": "encoder_norm",
    "decoder.layer_norm": "decoder_norm",
    "encoder.embeddings.make_embedding.emb_luts.0": "source_embedding",
    "decoder.embeddings.make_embedding.emb_luts.0": "target_embedding",
    "generator": "output",
    ".layer_norm.": ".attention.norm.",
}


def renamed(values: dict[str, Tensor]) -> dict[str, Tensor]:
    """Their parameters under our names."""
    named = {}
    for name, value in values.items():
        for theirs, ours in PARTS.items():
            name = name.replace(theirs, ours)
        if name.endswith(".weight") and "norm" not in name:
            name = f"{name.removesuffix('.weight')}.structure.matrix"
        named[name] = value.detach().clone()
    return named


def searched(table: Tensor, alpha: float) -> Tensor:
    """Best output of their beam search, if ``table`` has the logits of the next word after each word."""
    from onmt.translate.beam_search import BeamSearch, GNMTGlobalScorer  # type: ignore[import-not-found]

    scorer = GNMTGlobalScorer(alpha, 0.0, "wu" if alpha else "none", "none")
    special = {"pad": PAD, "bos": BOS, "eos": EOS, "unk": UNK, "start": BOS}
    limits = {"min_length": 0, "max_length": LONGEST, "block_ngram_repeat": 0, "exclusion_tokens": set()}
    rest = {"return_attention": False, "stepwise_penalty": False, "ratio": 0.0, "ban_unk_token": False}
    search = BeamSearch(BEAM, 1, n_best=1, global_scorer=scorer, **special, **limits, **rest)
    search.initialize(torch.zeros(1, 1, 1), torch.ones(1, dtype=torch.long))
    for _ in range(LONGEST):
        search.advance(table.log_softmax(-1)[search.alive_seq[:, -1]], None)
        if any(map(any, search.is_finished_list)):
            search.update_finished()
            if search.done:
                break
    return search.predictions[0][0]


def network() -> nn.ModuleDict:
    """Their encoder, decoder and output map, with random weights."""
    from onmt.decoders.transformer import TransformerDecoder  # type: ignore[import-not-found]
    from onmt.encoders.transformer import TransformerEncoder  # type: ignore[import-not-found]
    from onmt.modules.embeddings import Embeddings  # type: ignore[import-not-found]

    sizes = (LAYERS, WIDTH, HEADS, INNER)
    source, target = (Embeddings(WIDTH, WORDS, PAD, position_encoding=True) for _ in range(2))
    encoder = TransformerEncoder(*sizes, 0.0, 0.0, source, 0, 0, add_qkvbias=True)
    fixed = (False, "scaled-dot", 0.0, 0.0, target, 0, 0, False, False, 0, 0)
    decoder = TransformerDecoder(*sizes, *fixed, add_qkvbias=True)
    model = nn.ModuleDict({"encoder": encoder, "decoder": decoder, "generator": nn.Linear(WIDTH, WORDS)})
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.6)
    return model.eval()


def main(git_directory: str) -> None:
    """Position vectors, logits, gradient of the smoothed loss, a step of Adam, and outputs of the search."""
    with checked_out(SOURCE, git_directory) as folder:
        empty_packages(folder, "onmt", "onmt.encoders", "onmt.decoders", "onmt.utils", "onmt.translate")
        sys.modules["onmt.utils.logging"] = types.ModuleType("onmt.utils.logging")
        sys.modules["onmt.utils.logging"].logger = None  # type: ignore[attr-defined]
        attention = folder / "onmt/modules/multi_headed_attn.py"
        attention.write_text(attention.read_text().replace("scores.float()", "scores"))
        import onmt.modules  # type: ignore[import-not-found]  # noqa: F401

        torch.set_default_dtype(torch.float64)
        torch.manual_seed(4)
        model = network()
        vectors = model["encoder"].embeddings.make_embedding.pe.pe[:20, 0]
        source = torch.tensor([[5, 6, 7, EOS], [8, 9, EOS, PAD]])
        target = torch.tensor([[BOS, 6, 5, 9, EOS], [BOS, 10, EOS, PAD, PAD]])
        lengths = (source != PAD).sum(1)
        encoded, _, _ = model["encoder"](source.unsqueeze(2), lengths)
        model["decoder"].init_state(source.unsqueeze(2), encoded, None)
        hidden, _ = model["decoder"](target[:, :-1].unsqueeze(2), encoded, src_len=lengths)
        logits = model["generator"](hidden)
        numbers = {"vectors": vectors, "source": source, "target": target, "logits": logits}
        numbers |= {f"before/{name}": value for name, value in renamed(dict(model.named_parameters())).items()}
        criterion = nn.CrossEntropyLoss(ignore_index=PAD, reduction="sum", label_smoothing=0.1)
        loss = criterion(logits.flatten(0, 1), target[:, 1:].flatten())
        (loss / (target[:, 1:] != PAD).sum()).backward()
        numbers["loss"] = loss
        gradients = renamed({name: value.grad for name, value in model.named_parameters()})
        numbers |= {f"gradient/{name}": value for name, value in gradients.items()}
        numbers["search/tables"] = tables = torch.randn(SEARCHES, WORDS, WORDS)
        tables -= 10 * torch.ones(WORDS, WORDS).tril()  # words follow smaller ones, so that outputs end
        tables[:, :, EOS] = torch.randn(SEARCHES, WORDS)
        tables[:, :, [PAD, BOS]] = -1e9
        for alpha in (0.0, 0.6):
            for number, table in enumerate(tables):
                numbers[f"search/{number}/{alpha}"] = searched(table, alpha)
        torch.optim.Adam(model.parameters(), lr=0.001, betas=(0.9, 0.998), eps=1e-9).step()
        numbers |= {f"after/{name}": value for name, value in renamed(dict(model.named_parameters())).items()}
        record("opennmt-py", SOURCE, numbers)


if __name__ == "__main__":
    main(sys.argv[1])
