"""Correct types and defaults of parameters that share a line of a docstring, in the API reference.

Griffe gives every name of a line such as ``n_estimators, learning_rate`` the type and the default of the first one.
"""

from __future__ import annotations

from typing import Any

import griffe


class SharedLines(griffe.Extension):
    """Replaces the types and defaults by those of the signature."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if not isinstance(obj, griffe.Class | griffe.Function) or obj.docstring is None:
            return
        for section in obj.docstring.parsed:
            for described in (
                section.value if section.kind is griffe.DocstringSectionKind.parameters else ()
            ):
                if described.name in obj.parameters:
                    described.annotation = obj.parameters[described.name].annotation
                    described.value = obj.parameters[described.name].default
