"""The description of the service: OpenAPI 3.1, and a page that shows it with a form to try it."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rankwright.data.columns import Columns
from rankwright.serve.settings import ServiceSettings

_FOLDER = Path(__file__).parent
PAGE = (_FOLDER / "docs.html").read_text(encoding="utf-8")


def _source(tag: str) -> str:
    """Return the hash that allows the text of a tag in a content security policy."""
    text = PAGE.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{b64encode(digest).decode()}'"


# The browser loads only the page itself and openapi.json, and runs only the page's own script.
PAGE_HEADERS = {
    "content-security-policy": (
        f"default-src 'none'; style-src {_source('style')}; script-src {_source('script')}; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
}


def document(settings: ServiceSettings, columns: Columns) -> dict[str, Any]:
    """Return ``openapi.json`` with the limits of a service and examples of the model's columns."""
    description: dict[str, Any] = json.loads((_FOLDER / "openapi.json").read_text(encoding="utf-8"))
    description["info"]["version"] = version("rankwright")
    rank = description["paths"]["/rank"]["post"]
    rank["description"] += (
        f" At most {settings.max_rows} documents, {settings.max_body} bytes and "
        f"{settings.time_limit:g} seconds."
    )
    rank["requestBody"]["content"]["application/json"]["examples"] = _examples(columns)
    components = description["components"]
    for kind in ("rows", "documents", "hits"):
        components["schemas"]["Query"]["properties"][kind]["maxItems"] = settings.max_rows
    if settings.token is None:
        del components["securitySchemes"]
        for methods in description["paths"].values():
            for operation in methods.values():
                operation["security"] = []
    return description


def _examples(columns: Columns) -> dict[str, Any]:
    """Return requests that the model answers."""
    rows, documents = [], []
    for value in (0.3, 0.7):
        row: dict[str, Any] = dict.fromkeys(columns.feature_names, value)
        document = dict(row)
        for name, levels in columns.categories.items():
            # Rows have codes; documents have levels, if the model knows any.
            row[name] = 0
            document[name] = levels[0] if levels else 0
        rows.append(list(row.values()))
        documents.append(document)
    # The last document shows a feature that is not given.
    if len(columns.feature_names) > 1:
        del documents[-1][columns.feature_names[-1]]
    return {
        "rows": {
            "summary": "Rows of numbers, in the order of the model's columns",
            "value": {"rows": rows, "ids": ["doc-a", "doc-b"]},
        },
        "documents": {
            "summary": "Documents by feature name; features that are not given are missing values",
            "value": {"documents": documents, "allow_missing": True, "top": 10},
        },
    }
