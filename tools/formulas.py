"""Formulas of the documentation: TeX in fences of the language math becomes MathML, which needs no script."""

from __future__ import annotations

from typing import Any

from latex2mathml.converter import convert


def typeset(
    source: str, language: str, css_class: str, options: dict[str, Any], md: Any, **_: Any
) -> str:
    """Return a block of MathML, as a custom fence of pymdownx.superfences."""
    return f'<div class="formula">{convert(source.strip(), display="block")}</div>'
