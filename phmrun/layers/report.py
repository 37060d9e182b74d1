"""Record of a conversion: converted layers, layers left with the reason, parameters before and after."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from phmrun.errors import PhmrunError, counted
from phmrun.layers.structure import Structure

ATTRIBUTE = "_phmrun_conversion"
"""Attribute of a converted model that holds its report."""


@dataclass(frozen=True)
class ConvertedLayer:
    """Layer that has a structure now.

    Args:
        name: Name in ``model.named_modules()``.
        kind: Class before the conversion, such as "Linear".
        structure: Name of the structure.
        options: All options of the structure.
        before: Parameters of the layer before the conversion, without those of its children.
        after: Parameters after it.
    """

    name: str
    kind: str
    structure: str
    options: Mapping[str, Any]
    before: int
    after: int


@dataclass(frozen=True)
class LeftLayer:
    """Module with parameters that was left unchanged.

    Args:
        name: Name in ``model.named_modules()``; "" for the model itself.
        kind: Its class.
        reason: Why it was left.
        parameters: Its parameters, without those of its children.
        matrix: True if a parameter has two or more dimensions; False for norms and other vectors.
    """

    name: str
    kind: str
    reason: str
    parameters: int
    matrix: bool


@dataclass(frozen=True)
class ConversionReport:
    """Result of one or several calls of ``convert``.

    Args:
        converted: Layers with a structure.
        left: All other modules with parameters.
        before: Parameters of the model before the first conversion; tied ones count once.
        after: Parameters after the last one, frozen matrices of updates included.
        trained: Number of ``after`` that have a gradient.
    """

    converted: Sequence[ConvertedLayer]
    left: Sequence[LeftLayer]
    before: int
    after: int
    trained: int

    def line(self) -> str:
        """Return the report in one line.

        It has the numbers of converted layers by class, and of parameters before and after, and of trained ones if
        fewer. Then it names the first three left layers with their reasons, and the number of further ones. Left
        modules with vectors only (norms, biases) are omitted.
        """
        counts = f"{counted(self.before, 'parameter')} before, {self.after:,} after"
        counts += f", {self.trained:,} trained" if self.trained < self.after else ""
        kinds = Counter(layer.kind for layer in self.converted)
        layers = ", ".join(f"{number} {kind}" for kind, number in kinds.items()) or "nothing"
        text = f"converted {layers}; {counts}"
        left = [
            f"{layer.name or 'the model itself'} ({layer.kind}: {layer.reason})" for layer in self.left if layer.matrix
        ]
        more = f" and {len(left) - 3} more" if len(left) > 3 else ""
        text += f"; left: {', '.join(left[:3])}{more}" if left else ""
        return text

    def __str__(self) -> str:
        """Return a line of totals, then one row per converted and left module, vectors included."""
        rows = [self.line().partition(";")[0] + f"; {self.before:,} parameters before, {self.after:,} after"]
        rows += [
            f"  {layer.name}: {layer.kind} to {layer.structure}, {layer.before:,} to {layer.after:,} parameters"
            for layer in self.converted
        ]
        rows += [
            f"  {layer.name or 'the model itself'}: {layer.kind} left, {layer.parameters:,} parameters: {layer.reason}"
            for layer in self.left
        ]
        return "\n".join(rows)


def conversion_report(model: nn.Module) -> ConversionReport:
    """Return the report that :func:`phmrun.layers.convert` kept with a model.

    Args:
        model: Result of ``convert`` or ``load``.

    Raises:
        PhmrunError: The model was not converted.
    """
    report = model.__dict__.get(ATTRIBUTE)
    if not isinstance(report, ConversionReport):
        hint = "Use the model that phmrun.layers.convert returns."
        raise PhmrunError(f"this {type(model).__name__} was not converted", hint=hint)
    return report


def conversions(model: nn.Module) -> list[ConvertedLayer]:
    """Return all converted layers of a model and of converted models inside.

    They are in the order of the modules with a report, outer ones first. Names are those in ``model``. Empty if nothing
    was converted.
    """
    layers = []
    for prefix, module in model.named_modules():
        report = module.__dict__.get(ATTRIBUTE)
        for layer in report.converted if isinstance(report, ConversionReport) else ():
            name = ".".join(part for part in (prefix, layer.name) if part)
            layers.append(ConvertedLayer(name, layer.kind, layer.structure, layer.options, layer.before, layer.after))
    return layers


def parameter_count(model: nn.Module) -> int:
    """Return the number of parameters of a model.

    Tied ones count once. Frozen matrices of updates and parameters of training only are included.
    """
    frozen = sum(module.frozen_count() for module in model.modules() if isinstance(module, Structure))
    return frozen + sum(parameter.numel() for parameter in model.parameters())


def trained_count(model: nn.Module) -> int:
    """Return the number of a model's parameters that require a gradient.

    Tied ones count once.
    """
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
