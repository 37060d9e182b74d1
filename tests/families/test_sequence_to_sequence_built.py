"""A sequence-to-sequence experiment's config becomes the network, the optimiser and the schedule that it describes."""

import pytest
import torch

from phmrun.config import Source, resolve, task_defaults
from phmrun.errors import PhmrunError
from phmrun.families.sequence_to_sequence.module import build_sequence_to_sequence as build_module
from phmrun.layers import options_of
from phmrun.tasks.nmt.config import TranslationExperiment


def module_of(sizes=(64, 64), **values):
    config = resolve(TranslationExperiment, [task_defaults("nmt"), Source("test", values)], options_of).config
    with torch.device("meta"):
        return build_module(config, *sizes)


def test_every_setting_of_the_model_arrives():
    model = {"width": 24, "feedforward": 40, "heads": 3, "encoder_layers": 1, "decoder_layers": 3, "norm": "post"}
    model |= {"dropout": 0.1, "attention_dropout": 0.2, "activation_dropout": 0.3}
    model |= {"attention_maps": "separate", "bias": True, "tie": "none"}
    layers = {part: {"structure": "phm", "n": n} for part, n in (("layer", 4), ("embedding", 2), ("output", 8))}
    network = module_of((48, 64), model=model, training={"label_smoothing": 0.25}, **layers).network
    assert (len(network.encoder), len(network.decoder)) == (1, 3)
    block = network.decoder[2].cross.block
    assert (block.embed_dim, block.num_heads, block.dropout, len(block.project)) == (24, 3, 0.2, 3)
    assert block.output.bias is not None
    assert block.output.structure.n == 4
    feedforward = network.encoder[0].feedforward
    assert (feedforward.block.expand.out_features, feedforward.block.dropout) == (40, 0.3)
    assert (feedforward.dropout, feedforward.pre, network.dropout) == (0.1, False, 0.1)
    assert (network.source_embedding.num_embeddings, network.target_embedding.num_embeddings) == (48, 64)
    assert (network.source_embedding.structure.n, network.output.structure.n) == (2, 8)


def test_objective_optimiser_and_schedule():
    training = {
        "label_smoothing": 0.25,
        "optimizer": {"name": "adamw", "lr": 0.01, "betas": [0.8, 0.9], "eps": 1e-6, "weight_decay": 0.1},
        "schedule": {"name": "constant", "warmup": 10},
    }
    module = module_of(training=training)
    assert module.smoothing == 0.25
    assert [module.schedule(step) for step in (1, 10, 20)] == pytest.approx([0.001, 0.01, 0.01])
    optimizer = module.make_optimizer([torch.nn.Parameter(torch.zeros(1))])
    assert type(optimizer).__name__ == "AdamW"
    group = optimizer.param_groups[0]
    assert (group["betas"], group["eps"], group["weight_decay"], group["lr"]) == ((0.8, 0.9), 1e-6, 0.1, 1.0)


def test_a_tied_output_of_another_structure_is_refused():
    phm = {"structure": "phm", "n": 2}
    for output in ({"structure": "phm", "n": 4}, {"structure": "phm", "n": 2, "variant": "released"}):
        with pytest.raises(PhmrunError, match="tied") as caught:
            module_of(embedding=phm, output=output)
        assert caught.value.where == "output.structure"
        assert "model.tie=none" in caught.value.hint
    for output in (phm, {}):
        network = module_of(embedding=phm, output=output).network
        assert network.output.structure is network.target_embedding.structure
