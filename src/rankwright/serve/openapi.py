"""The description of the service in the form of OpenAPI 3.1."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from rankwright.serve.settings import ServiceSettings

_ERRORS = {
    "400": "The request is not of the form described here.",
    "401": "The token is missing or wrong.",
    "403": "The service has no token, without which this is not allowed.",
    "405": "The path takes another method.",
    "408": "The request did not arrive in time.",
    "409": "The new model cannot be served; the current one stays.",
    "413": "The body or the number of documents is too large.",
    "415": "The body is not application/json.",
    "422": "The values do not fit the model's columns, or the model is not calibrated.",
    "503": "The service is starting, or too busy; try again.",
}
_SCALAR = {"type": ["number", "boolean", "null"]}


def document(settings: ServiceSettings) -> dict[str, Any]:
    """Return the description, with the limits of a service."""
    security: list[Any] = [] if settings.token is None else [{"token": []}]
    schemes = {"token": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "rankwright",
            "version": version("rankwright"),
            "description": "Ranks the documents of one query with a model of boosted trees.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": {
            "/rank": {
                "post": {
                    **_operation("rank", "Rank the documents of one query", security),
                    "description": (
                        "Give the features as rows or as documents. Documents come back by descending score; equal "
                        f"scores keep the order of the request. At most {settings.max_rows} documents, "
                        f"{settings.max_body} bytes and {settings.time_limit:g} seconds."
                    ),
                    "requestBody": {
                        "required": True,
                        "content": {
                            "application/json": {"schema": _ref("Query"), "examples": _EXAMPLES}
                        },
                    },
                    "responses": _responses(
                        "The ranking.", "Ranking", "400", "401", "408", "413", "415", "422", "503"
                    ),
                }
            },
            "/model": {
                "get": {
                    **_operation(
                        "describeModel", "Columns, categories and version of the model", security
                    ),
                    "responses": _responses("The model.", "Model", "401"),
                }
            },
            "/reload": {
                "post": {
                    **_operation("reloadModel", "Read the model's files again", security),
                    "description": "Requests under way finish with the model they started with. Needs a token.",
                    "responses": _responses(
                        "Whether the model was replaced.", "Reload", "401", "403", "409", "503"
                    ),
                }
            },
            "/health": {
                "get": {
                    **_operation("health", "Whether the process answers", []),
                    "responses": _responses("It does.", "Status"),
                }
            },
            "/ready": {
                "get": {
                    **_operation("ready", "Whether requests to rank are answered", []),
                    "responses": _responses("They are.", "Status", "503"),
                }
            },
            "/metrics": {
                "get": {
                    **_operation("metrics", "Metrics for Prometheus", security),
                    "responses": {
                        "200": {
                            "description": "The metrics.",
                            "content": {"text/plain": {"schema": {"type": "string"}}},
                        },
                        **_errors("401"),
                    },
                }
            },
        },
        "components": {
            "schemas": _schemas(settings),
            **({"securitySchemes": schemes} if security else {}),
        },
    }


_EXAMPLES = {
    "rows": {
        "summary": "Rows of numbers, in the order of the model's columns",
        "value": {"rows": [[0.3, 12], [0.7, 5]], "ids": ["doc-a", "doc-b"]},
    },
    "documents": {
        "summary": "Documents by feature name; features that are not given are missing values",
        "value": {
            "documents": [{"bm25": 0.3, "brand": "acme"}, {"bm25": 0.7}],
            "allow_missing": True,
            "top": 10,
        },
    },
}


def _operation(name: str, summary: str, security: list[Any]) -> dict[str, Any]:
    return {"operationId": name, "summary": summary, "security": security}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _responses(description: str, schema: str, *errors: str) -> dict[str, Any]:
    content = {"application/json": {"schema": _ref(schema)}}
    return {"200": {"description": description, "content": content}, **_errors(*errors)}


def _errors(*statuses: str) -> dict[str, Any]:
    content = {"application/json": {"schema": _ref("Error")}}
    return {status: {"description": _ERRORS[status], "content": content} for status in statuses}


def _schemas(settings: ServiceSettings) -> dict[str, Any]:
    identifier = {"type": ["string", "integer"]}
    digits = {"type": "string", "description": "First digits of the hash of the trees."}
    common: dict[str, Any] = {
        "ids": {
            "type": "array",
            "items": identifier,
            "uniqueItems": True,
            "description": "One per document; 0, 1, 2, ... if not given.",
        },
        "top": {
            "type": "integer",
            "minimum": 1,
            "description": "Return only the best documents; all if not given.",
        },
        "contributions": {
            "type": "boolean",
            "default": False,
            "description": "Return what each feature adds to the score (SHAP values).",
        },
        "calibrated": {
            "type": "boolean",
            "default": False,
            "description": "Return calibrated values too: expected labels or probabilities, see the model.",
        },
        "allow_missing": {
            "type": "boolean",
            "default": False,
            "description": "Whether null, and a feature that a document lacks, are missing values; else an error.",
        },
    }
    rows = {
        "type": "array",
        "maxItems": settings.max_rows,
        "items": {"type": "array", "items": _SCALAR},
        "description": "Values in the order of the model's columns; categories as codes.",
    }
    documents = {
        "type": "array",
        "maxItems": settings.max_rows,
        "items": {
            "type": "object",
            "additionalProperties": {"type": ["number", "boolean", "string", "null"]},
        },
        "description": "Values by feature name; categories as levels. A level that training has not seen is missing.",
    }
    return {
        "Query": {
            "oneOf": [
                _object({"rows": rows, **common}, required=["rows"]),
                _object({"documents": documents, **common}, required=["documents"]),
            ]
        },
        "Ranking": _object(
            {
                "model": digits,
                "results": {
                    "type": "array",
                    "items": _object(
                        {
                            "id": identifier,
                            "score": {"type": "number"},
                            "calibrated": {"type": "number"},
                            "contributions": {
                                "type": "object",
                                "additionalProperties": {"type": "number"},
                            },
                        },
                        required=["id", "score"],
                    ),
                },
                "expected_score": {
                    "type": "number",
                    "description": "With contributions: the score that they are added to.",
                },
            },
            required=["model", "results"],
        ),
        "Model": _object(
            {
                "model": digits,
                "trees": {"type": "integer"},
                "engine": {"type": "string"},
                "loaded_at": {"type": "number", "description": "Seconds since 1970."},
                "features": {"type": "array", "items": {"type": "string"}},
                "within_query": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Features that the service computes from all documents of a request.",
                },
                "categories": {
                    "type": "object",
                    "additionalProperties": {"type": ["array", "null"]},
                    "description": "Levels of the categorical features by code; null where values are codes already.",
                },
                "calibration": {
                    "type": ["string", "null"],
                    "description": "What calibrated values are; null where the model is not calibrated.",
                },
            },
            required=[
                "model",
                "trees",
                "engine",
                "loaded_at",
                "features",
                "within_query",
                "categories",
                "calibration",
            ],
        ),
        "Reload": _object(
            {"changed": {"type": "boolean"}, "model": digits}, required=["changed", "model"]
        ),
        "Status": _object({"status": {"type": "string"}, "model": digits}, required=["status"]),
        "Error": _object(
            {"error": {"type": "string", "description": "The reason."}}, required=["error"]
        ),
    }


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
