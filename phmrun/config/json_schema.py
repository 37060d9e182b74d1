"""JSON Schema of a task's configuration, for editors."""

from typing import Any

from phmrun.config.experiment import Experiment
from phmrun.config.sections import EmbeddingConfig, LayerConfig
from phmrun.registry import STRUCTURES


def json_schema(schema: type[Experiment]) -> dict[str, Any]:
    """Return the JSON Schema of a task's configuration file.

    All keys are optional. Unknown keys are invalid, except in sections of layers.
    """
    document = schema.model_json_schema()
    document["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    document["title"] = f"phmrun {document['properties']['task'].get('default', 'experiment')}"
    document.pop("required", None)
    for name, field in schema.model_fields.items():
        if field.exclude:
            del document["properties"][name]
    for name, section in document["$defs"].items():
        section.pop("required", None)
        if name in (LayerConfig.__name__, EmbeddingConfig.__name__):
            document["$defs"][name] = _layer(section)
    return document


def _layer(section: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a layer: a name, or a mapping with options. Names of structures are examples."""
    name = {"type": "string", "examples": STRUCTURES.names()}
    section["properties"]["structure"] |= name
    kinds = [{"type": "object", "properties": section["properties"]}, name]
    return {"title": section["title"], "description": section["description"], "anyOf": kinds}
