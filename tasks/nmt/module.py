"""The Transformer of a translation experiment, from its config."""

from functools import partial

from phmrun.config import LayerConfig
from phmrun.errors import PhmrunError
from phmrun.models.transformer import Transformer
from phmrun.training.optimizers import build_optimizer, build_schedule
from phmrun.training.sequences import SequenceToSequence
from tasks.nmt.config import TranslationExperiment


def build_module(config: TranslationExperiment, source_size: int, target_size: int) -> SequenceToSequence:
    """The Lightning module of an experiment.

    Args:
        config: The resolved config.
        source_size: Source vocabulary entries.
        target_size: Target vocabulary entries.

    Raises:
        PhmrunError: Sizes, structures and tying that do not go together.
    """
    model, training = config.model, config.training
    if model.tie != "none" and config.output not in (config.embedding, LayerConfig()):
        raise PhmrunError(
            f"the output map is tied to the embedding, whose structure is {config.embedding.structure!r}",
            where="output.structure",
            hint=f"Use --embedding {config.output.structure}, or --set model.tie=none.",
        )
    network = Transformer(
        source_size,
        target_size,
        width=model.width,
        inner=model.feedforward,
        heads=model.heads,
        encoder_layers=model.encoder_layers,
        decoder_layers=model.decoder_layers,
        norm=model.norm,
        dropout=model.dropout,
        attention_dropout=model.attention_dropout,
        activation_dropout=model.activation_dropout,
        maps=model.attention_maps,
        attention_bias=model.bias,
        feedforward_bias=model.feedforward_bias,
        output_bias=model.output_bias,
        upsample=model.upsample,
        normalization=model.normalization,
        positions=model.positions,
        tie=model.tie,
        layer=structure_arguments(config.layer),
        contract=contract_arguments(config),
        embedding=structure_arguments(config.embedding),
        output=structure_arguments(config.output),
    )
    optimizer, schedule = training.optimizer, training.schedule
    return SequenceToSequence(
        network,
        partial(
            build_optimizer,
            name=optimizer.name,
            betas=optimizer.betas,
            eps=optimizer.eps,
            weight_decay=optimizer.weight_decay,
        ),
        build_schedule(
            name=schedule.name,
            warmup=schedule.warmup,
            factor=schedule.factor,
            width=model.width,
            lr=optimizer.lr,
        ),
        smoothing=training.label_smoothing,
    )


def structure_arguments(layer: LayerConfig) -> dict[str, object]:
    """A layer section as keyword arguments of the modules."""
    return {"structure": layer.structure, **layer.options}


def contract_arguments(config: TranslationExperiment) -> dict[str, object] | None:
    """The structure of the feed-forward blocks' second map, where its order is not the layer's.

    Raises:
        PhmrunError: The layer's structure has no order n.
    """
    n = config.model.contract_n
    if n is None:
        return None
    arguments = structure_arguments(config.layer)
    if "n" not in arguments:
        raise PhmrunError(
            f"the layer {config.layer.structure!r} has no order n that could differ", where="model.contract_n"
        )
    return {**arguments, "n": n}
