"""The OpenAPI document, made from the table of routes and the types, and a page that shows it."""

from __future__ import annotations

import ast
import html
import inspect
from functools import cache
from typing import Any

import msgspec

from robirank.serve import messages, page_messages
from robirank.serve.problems import CODES
from robirank.serve.route import JSON, Route
from robirank.serve.routes import ROUTES

_PLACE = "#/components/schemas/{name}"
#: What every route with a body, and every route with a key, can answer.
_OF_BODY = ("bad_json", "bad_value", "slow_body", "too_large", "wrong_origin")
_OF_KEY = ("no_key", "wrong_key")


def openapi_document() -> dict[str, Any]:
    """The document, of version 3.1."""
    from robirank import __version__

    asked = [route.body for route in ROUTES if route.body is not None]
    told = [route.answer for route in ROUTES if route.answer is not None]
    kinds = [parameter.kind for route in ROUTES for parameter in route.parameters]
    every = [*asked, *told, *kinds, messages.ProblemBody]
    schemas, components = msgspec.json.schema_components(every, ref_template=_PLACE)
    by_kind = {repr(kind): schema for kind, schema in zip(every, schemas, strict=True)}
    _describe(components)
    paths: dict[str, Any] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_kind)
    schemes = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "robirank", "version": __version__},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": schemes},
    }


def _operation(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    kind = route.content.split(";")[0]
    good = {
        "description": "The answer.",
        "content": {kind: {"schema": schemas[repr(route.answer)]}},
    }
    operation: dict[str, Any] = {
        "operationId": f"{route.method.lower()}_{route.handle.__name__}",
        "summary": route.says,
        "responses": {"200": good} | _problems(route, schemas),
        "security": [{"bearer": []}, {"key": []}, {}] if route.needs_key else [],
    }
    if route.body is not None:
        content = {JSON: {"schema": schemas[repr(route.body)]}}
        operation["requestBody"] = {"required": True, "content": content}
    if route.parameters:
        operation["parameters"] = [
            {
                "name": one.name,
                "in": "path" if one.in_path else "query",
                "required": one.in_path,
                "description": one.says,
                "schema": schemas[repr(one.kind)]
                | ({} if one.in_path else {"default": one.default}),
            }
            for one in route.parameters
        ]
    return operation


def codes_of(route: Route) -> list[str]:
    """The codes of the problems that a route can answer with."""
    codes = {"unexpected", *route.problems}
    codes |= set(_OF_BODY) if route.body is not None else set()
    codes |= {"bad_value"} if route.parameters else set()
    codes |= set(_OF_KEY) if route.needs_key else set()
    return [code for code in CODES if code in codes]


def _problems(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    by_status: dict[str, list[str]] = {}
    for code in codes_of(route):
        status, title = CODES[code]
        by_status.setdefault(str(status), []).append(f"`{code}`: {title}.")
    content = {"application/problem+json": {"schema": schemas[repr(messages.ProblemBody)]}}
    return {
        status: {"description": " ".join(said), "content": content}
        for status, said in by_status.items()
    }


def _describe(components: dict[str, Any]) -> None:
    """Put what is said of fields into the schemas."""
    said = field_comments()
    for name, schema in components.items():
        for field, about in schema.get("properties", {}).items():
            text = said.get((name, field))
            if text is not None:
                about["description"] = text


@cache
def field_comments() -> dict[tuple[str, str], str]:
    """What the comments that begin with ``#:`` say, by class and field."""
    said: dict[tuple[str, str], str] = {}
    for module in (messages, page_messages):
        said |= _comments_in(inspect.getsource(module))
    return said


def _comments_in(source: str) -> dict[tuple[str, str], str]:
    lines, said = source.splitlines(), {}
    for node in ast.parse(source).body:
        if not isinstance(node, ast.ClassDef):
            continue
        for field in node.body:
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                words: list[str] = []
                line = field.lineno - 2
                while (text := lines[line].strip()).startswith("#:"):
                    words.insert(0, text[2:].strip())
                    line -= 1
                if words:
                    said[node.name, field.target.id] = " ".join(words)
    return said


# ------------------------------------------------------------------------------- the page


def documentation_page() -> str:
    """A page without scripts that shows the routes, what they take and what they give."""
    document = openapi_document()
    schemas = document["components"]["schemas"]
    parts = [_HEAD]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts.append(_section(path, method, operation))
    parts.append("<h2 id='types'>Types</h2>")
    parts += [_type(name, schema) for name, schema in schemas.items()]
    parts.append("<h2 id='problems'>Problems</h2><table><tr><th>code<th>status<th>title")
    parts += [f"<tr><td><code>{c}</code><td>{s}<td>{_text(t)}" for c, (s, t) in CODES.items()]
    parts.append("</table></main></html>")
    return "\n".join(parts)


def _section(path: str, method: str, operation: dict[str, Any]) -> str:
    name = f"{method.upper()} {path}"
    lines = [f"<h2><code>{_text(name)}</code></h2><p>{_text(operation['summary'])}"]
    for one in operation.get("parameters", []):
        kind = f"{_text(one['description'])} ({one['in']}, {_kind(one['schema'])})"
        lines.append(f"<br><code>{one['name']}</code>: {kind}")
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"][JSON]["schema"]
        lines.append(f"<p>Takes {_kind(schema)}.")
    (content,) = operation["responses"]["200"]["content"].values()
    lines.append(f"<p>Gives {_kind(content['schema'])}.")
    statuses = [s for s in operation["responses"] if s != "200"]
    lines.append(f"<p><small>Problems: {', '.join(statuses)}</small>")
    return "".join(lines)


def _type(name: str, schema: dict[str, Any]) -> str:
    rows = []
    for field, about in schema.get("properties", {}).items():
        default = about.get("default")
        preset = "" if default in (None, []) else f" = {_text(repr(default))}"
        said = _text(about.get("description", ""))
        rows.append(f"<tr><td><code>{field}</code><td>{_kind(about)}{preset}<td>{said}")
    says = _text(schema.get("description", ""))
    head = "<tr><th>field<th>type<th>"
    return f"<h3 id='{name}'>{name}</h3><p>{says}<table>{head}{''.join(rows)}</table>"


def _kind(schema: dict[str, Any]) -> str:
    """A schema in words, as HTML."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"<a href='#{name}'>{name}</a>"
    if "anyOf" in schema:
        kinds = [_kind(one) for one in schema["anyOf"]]
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in schema:
        return " or ".join(_text(repr(value)) for value in schema["enum"])
    kind = schema.get("type", "anything")
    if kind == "array":
        most = f" of at most {schema['maxItems']:,}" if "maxItems" in schema else ""
        return f"list{most} of ({_kind(schema.get('items', {}))})"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of ({_kind(schema['additionalProperties'])})"
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None and high < 2**53:
        return f"{kind} from {low} to {high}"
    return str(kind)


def _text(text: str) -> str:
    return html.escape(text)


_HEAD = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Routes of robirank</title>
<link rel="stylesheet" href="docs.css">
<main>
<h1>Routes</h1>
<p>JSON in and out; the same as <a href="openapi.json">OpenAPI</a>."""
