"""The description of the service as a page that loads nothing from elsewhere."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from html import escape
from typing import Any

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24; }
h2 { margin-top: 2.5rem; border-top: 1px solid #d0d7de; padding-top: 1.5rem; }
code, pre, textarea, input { font: 14px/1.45 ui-monospace, monospace; }
pre { background: #f6f8fa; padding: .8rem; overflow-x: auto; white-space: pre-wrap; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .25rem .8rem .25rem 0; vertical-align: top; }
textarea, input { width: 100%; box-sizing: border-box; } label { display: block; margin: .6rem 0; }
.method { background: #0b6e4f; color: #fff; padding: .1rem .5rem; border-radius: .3rem; margin-right: .5rem; }
"""
_SCRIPT = """
const form = document.getElementById("try");
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const headers = { "Content-Type": "application/json" };
  const token = document.getElementById("token");
  if (token && token.value) headers.Authorization = "Bearer " + token.value;
  const output = document.getElementById("answer");
  try {
    const answer = await fetch("rank", { method: "POST", headers, body: document.getElementById("body").value });
    output.textContent = answer.status + "\\n" + JSON.stringify(await answer.json(), null, 1);
  } catch (error) {
    output.textContent = String(error);
  }
});
"""


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_POLICY = (
    f"default-src 'none'; style-src {_hash(_STYLE)}; script-src {_hash(_SCRIPT)}; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = ((b"content-security-policy", _POLICY.encode()), (b"x-content-type-options", b"nosniff"))


def render(document: dict[str, Any]) -> bytes:
    """Return the page of an OpenAPI document."""
    parts = [
        "<!doctype html><html lang=en><head><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width, initial-scale=1'>",
        f"<title>{escape(document['info']['title'])}: the service</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(document['info']['title'])} {escape(document['info']['version'])}</h1>",
        f"<p>{escape(document['info']['description'])} The same as JSON: <a href=openapi.json>openapi.json</a>.</p>",
    ]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts += _operation(path, method, operation)
            if path == "/rank":
                parts += _form(operation)
    parts.append("<h2>Schemas</h2>")
    for name, schema in document["components"]["schemas"].items():
        parts.append(f"<h3 id='{escape(name)}'>{escape(name)}</h3>{_json(schema)}")
    parts.append(f"<script>{_SCRIPT}</script></body></html>")
    return "\n".join(parts).encode()


def _operation(path: str, method: str, operation: dict[str, Any]) -> list[str]:
    parts = [
        f"<h2><code><span class=method>{method.upper()}</span>{escape(path)}</code></h2>",
        f"<p><b>{escape(operation['summary'])}.</b> {escape(operation.get('description', ''))}</p>",
    ]
    if operation["security"]:
        parts.append("<p>Needs the header <code>Authorization: Bearer TOKEN</code>.</p>")
    for body in operation.get("requestBody", {}).get("content", {}).values():
        parts.append(f"<p>Body: {_link(body['schema'])}</p>")
        for example in body["examples"].values():
            parts.append(
                f"<p>{escape(example['summary'])}:</p>{_json(example['value'], indent=None)}"
            )
    parts.append("<table><tr><th>Status</th><th>Meaning</th><th>Body</th></tr>")
    for status, response in operation["responses"].items():
        links = ", ".join(f"{_link(one['schema'])}" for one in response["content"].values())
        parts.append(
            f"<tr><td>{status}</td><td>{escape(response['description'])}</td><td>{links}</td></tr>"
        )
    parts.append("</table>")
    return parts


def _form(operation: dict[str, Any]) -> list[str]:
    (body,) = operation["requestBody"]["content"].values()
    example = escape(json.dumps(body["examples"]["rows"]["value"]))
    token = (
        "<label>Token <input id=token type=password autocomplete=off></label>"
        if operation["security"]
        else ""
    )
    return [
        f"<form id=try><h3>Try it</h3>{token}",
        f"<label>Body <textarea id=body rows=6>{example}</textarea></label>",
        "<button>Send</button></form><pre id=answer></pre>",
    ]


def _link(schema: dict[str, Any]) -> str:
    if "$ref" not in schema:
        return escape(str(schema["type"]))
    name = escape(schema["$ref"].rpartition("/")[2])
    return f"<a href='#{name}'>{name}</a>"


def _json(value: Any, indent: int | None = 1) -> str:
    return f"<pre>{escape(json.dumps(value, indent=indent))}</pre>"
