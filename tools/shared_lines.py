"""Parameters that share a line of a docstring keep their own type and default in the API reference.

Griffe gives every name of a line such as ``n_estimators, learning_rate`` the type and the default of the first one.
"""

from __future__ import annotations

from typing import Any

import griffe


class SharedLines(griffe.Extension):
    """Puts the signature's types and defaults in place of the guessed ones."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if not isinstance(obj, griffe.Class | griffe.Function) or obj.docstring is None:
            return
        for section in obj.docstring.parsed:
            for described in section.value if section.kind is griffe.DocstringSectionKind.parameters else ():
                if described.name in obj.parameters:
                    described.annotation = obj.parameters[described.name].annotation
                    described.value = obj.parameters[described.name].default
