"""Keys whose values are names in a registry.

The names are validated, and listed in errors, schemas and completions.
"""

from collections.abc import Sequence
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError, core_schema

from phmrun.registry import FAMILIES, Registry

UNREGISTERED = "unregistered"  # kind of the error of a name that is not in its registry


class Registered:
    """Annotation of a key whose value is a name in a registry.

    Use it as in ``Annotated[str, Registered(OPTIMIZERS)]``.
    """

    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Return the schema of the annotated type with a check of the name."""
        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return a schema that lists the registered names.

        Any other text is valid, too: it may name a plug-in.
        """
        return {"anyOf": [{"enum": self.registry.names()}, {"type": "string"}]}

    def _checked(self, name: str) -> str:
        """Return the name if it is registered.

        Raises:
            PydanticCustomError: It is not; the error's type is "unregistered".
        """
        if name not in self.registry:
            advice = "one of your own needs --plugin FILE"
            for family, other in FAMILIES.items() if self.registry in FAMILIES.values() else ():
                if name in other.places:
                    valid = self.registry.group.rpartition(".")[2]
                    advice = f"{other.places[name]} has it in networks({family!r}), not networks({valid!r})"
            raise PydanticCustomError(UNREGISTERED, "{advice}", {"advice": advice})
        return name


def registered_names(field: FieldInfo) -> Sequence[str]:
    """Return the names that a :class:`Registered` key may have.

    They include plug-ins. Empty for any other key.
    """
    return next((mark.registry.names() for mark in field.metadata if isinstance(mark, Registered)), ())
