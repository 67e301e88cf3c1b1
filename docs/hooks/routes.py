"""Lists the routes of the server where a page asks for them, out of its OpenAPI document.

The line ``<!-- routes -->`` becomes a section for each route, its types and the codes of problems.
"""

from __future__ import annotations

from typing import Any

_MARK = "<!-- routes -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the routes in the place of the mark."""
    return markdown.replace(_MARK, routes()) if _MARK in markdown else markdown


def routes() -> str:
    """The routes as Markdown."""
    from robirank.serve.openapi import openapi_document
    from robirank.serve.problems import CODES

    document = openapi_document()
    lines: list[str] = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            lines += _route(f"{method.upper()} {path}", operation)
    lines += ["## Types", ""]
    for name, schema in document["components"]["schemas"].items():
        lines += _type(name, schema)
    lines += ["## Problems", "", "| code | status | title |", "|---|---|---|"]
    lines += [f"| `{code}` | {status} | {title} |" for code, (status, title) in CODES.items()]
    return "\n".join(lines)


def _route(name: str, operation: dict[str, Any]) -> list[str]:
    lines = [f"## {name}", "", operation["summary"], ""]
    parameters = operation.get("parameters", [])
    lines += [f"- `{one['name']}` ({one['in']}): {one['description']}" for one in parameters]
    if "requestBody" in operation:
        (content,) = operation["requestBody"]["content"].values()
        lines.append(f"- Takes {_kind(content['schema'])}.")
    (content,) = operation["responses"]["200"]["content"].values()
    lines.append(f"- Gives {_kind(content['schema'])}.")
    statuses = [f"{s} {a['description']}" for s, a in operation["responses"].items() if s != "200"]
    return [*lines, f"- Problems: {' '.join(statuses)}", ""]


def _type(name: str, schema: dict[str, Any]) -> list[str]:
    lines = [
        f"### {name}",
        "",
        schema.get("description", ""),
        "",
        "| field | type | |",
        "|---|---|---|",
    ]
    for field, about in schema.get("properties", {}).items():
        default = about.get("default")
        preset = "" if default in (None, []) else f" = `{default!r}`"
        kind = _kind(about).replace("|", "\\|")
        lines.append(f"| `{field}` | {kind}{preset} | {about.get('description', '')} |")
    return [*lines, ""]


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(one) for one in schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(f"`{value!r}`" for value in schema["enum"])
    kind = schema.get("type", "anything")
    if kind == "array":
        most = f" of at most {schema['maxItems']:,}" if "maxItems" in schema else ""
        return f"list{most} of ({_kind(schema.get('items', {}))})"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of ({_kind(schema['additionalProperties'])})"
    return str(kind)
