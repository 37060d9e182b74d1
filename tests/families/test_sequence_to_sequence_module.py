"""The loss of sentence pairs against token-by-token arithmetic; BLEU while training."""

import pytest
import sacrebleu
import torch
from built_networks import built
from tiny_experiments import configured

from phmrun.config import Task
from phmrun.families.sequence_to_sequence.data import ParallelBatch
from phmrun.families.sequence_to_sequence.module import SequenceToSequenceModule
from phmrun.models.transformer import Transformer
from phmrun.registry import TASKS
from phmrun.text.vocabulary import BOS, EOS, PAD


@pytest.mark.parametrize("output_bias", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_loss_sums_over_target_tokens(smoothing, output_bias):
    torch.manual_seed(0)
    sizes = {"width": 8, "feedforward": 8, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
    still = {"attention_dropout": 0.0, "activation_dropout": 0.0, "output_bias": output_bias}
    network = built(Transformer, 12, 12, **sizes, **still).double()
    if output_bias:
        torch.nn.init.normal_(network.output.bias)
    module = SequenceToSequenceModule(network, None, None, smoothing=smoothing)
    source, target = torch.tensor([[5, 6, EOS], [7, EOS, PAD]]), torch.tensor([[BOS, 8, PAD], [BOS, 9, 10]])
    mask = (source != PAD)[:, None, None, :]
    positions, wanted = torch.tensor([0, 1, 3, 4, 5]), torch.tensor([8, EOS, 9, 10, EOS])
    batch = ParallelBatch(source, mask, target, positions, wanted, 5, 5)

    nll, total = 0.0, 0.0
    for row, sentence, ends in ((0, [8, EOS], [0, 1]), (1, [9, 10, EOS], [0, 1, 2])):
        length = int((source[row] != PAD).sum())
        hidden = network(source[row : row + 1, :length], None, target[row : row + 1])[0]
        for position, token in zip(ends, sentence, strict=True):
            log_probs = network.output(hidden[position]).log_softmax(-1).detach()
            nll -= float(log_probs[token])
            total -= (1 - smoothing) * float(log_probs[token]) + smoothing * float(log_probs.mean())
    loss = module.loss(batch)
    assert float(loss.total.detach()) == pytest.approx(total)
    assert float(loss.nll) == pytest.approx(nll)
    assert loss.units == 5
    module.eval()
    loss = module.loss(batch)
    assert float(loss.total.detach()) == pytest.approx(nll), "no smoothing in evaluation"
    assert {name: float(value) for name, value in loss.hits.items()} == (
        {"loss-smoothed": pytest.approx(total)} if smoothing else {}
    )


def test_bleu_while_training_is_that_of_greedy_outputs(tmp_path, prepared_corpora):
    config = configured("nmt", tmp_path / "corpus")
    task: Task = TASKS.get("nmt")
    data = task.load("data")(config, prepared_corpora)
    module = task.load("module")(config, *data.vocabulary.sizes)
    state = torch.get_rng_state()
    references = (tmp_path / "corpus" / "dev.bb").read_text().splitlines()

    class Parrot:
        """Stands for the translator: says the references, the last two of them wrongly."""

        def translate(self, lines):
            assert list(lines) == (tmp_path / "corpus" / "dev.aa").read_text().splitlines()
            return [*references[:-2], "wrong", "wrong too"]

    with pytest.MonkeyPatch.context() as patch:
        asked = []
        patch.setattr(
            "phmrun.families.sequence_to_sequence.module.Translator",
            lambda *args, **options: asked.append((args, options)) or Parrot(),
        )
        scores = module.validation_scores(data)
    outputs = [*references[:-2], "wrong", "wrong too"]
    assert scores == {"bleu": pytest.approx(sacrebleu.corpus_bleu(outputs, [references]).score)}
    assert asked[0][0][2].beam == 1
    assert module.validation_scores(data)["bleu"] < 5
    assert torch.equal(torch.get_rng_state(), state), "validation draws nothing"
