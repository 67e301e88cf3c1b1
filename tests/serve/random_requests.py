"""Requests by the OpenAPI document, many thousands a second, from a seeded generator.

Hypothesis takes some milliseconds for a body, and keeps what it has made; this is for many more.
"""

import math
import random
from urllib.parse import urlencode

import msgspec

from robirank.serve.openapi import openapi_document
from robirank.serve.routes import ROUTES
from serve.from_schema import WORDS
from serve.shop import ITEMS

DOCUMENT = openapi_document()
SCHEMAS = DOCUMENT["components"]["schemas"]
_LETTERS = "aZ09 ._-/%\\'\"\x00\n\u00e9\u05d0\u4e2d\U0001f600"


def make_request(rng: random.Random):
    """A route, and a method, path, query and body for it; some are spoilt."""
    route = rng.choice(ROUTES)
    operation = DOCUMENT["paths"][route.path][route.method.lower()]
    path, query, body = route.path, {}, b""
    for one in operation.get("parameters", ()):
        value = str(_value(rng, one["schema"]))
        if one["in"] == "path":
            path = path.replace(f"{{{one['name']}}}", rng.choice([value, *ITEMS[:3]]))
        elif rng.random() < 0.5:
            query[one["name"]] = value
    if route.body is not None:
        (content,) = operation["requestBody"]["content"].values()
        body = _spoilt(rng, _value(rng, content["schema"]))
    method = "PUT" if rng.random() < 0.05 else route.method
    return route, method, path, urlencode(query, errors="surrogatepass").encode(), body


def _spoilt(rng, value):
    """A body as JSON; one in four has something wrong."""
    dice = rng.random()
    if dice < 0.1:
        value = _anything(rng)
    elif dice < 0.2 and isinstance(value, dict):
        value = value | {rng.choice([*value, "more"]): _anything(rng)}
    body = msgspec.json.encode(value)
    if dice > 0.95:
        place = rng.randint(0, len(body))
        body = body[:place] + rng.randbytes(rng.randint(0, 4)) + body[place + 1 :]
    return body


def _value(rng, schema):
    """What a schema allows."""
    if "$ref" in schema:
        return _value(rng, SCHEMAS[schema["$ref"].rpartition("/")[2]])
    if "anyOf" in schema:
        return _value(rng, rng.choice(schema["anyOf"]))
    if "enum" in schema:
        return rng.choice(schema["enum"])
    make = _MAKERS.get(schema.get("type"))
    return _anything(rng) if make is None else make(rng, schema)


def _integer(rng, schema):
    low, high = schema.get("minimum", -(2**63)), schema.get("maximum", 2**63 - 1)
    return rng.choice([low, high, rng.randint(low, min(high, low + 20)), rng.randint(low, high)])


def _number(rng, schema):
    low, high = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
    ends = [x for x in (low, high) if math.isfinite(x)]
    values = [0.0, 1.0, rng.random(), rng.gauss(0, 1e3), 1e-320, -1.7e308, 3.5e38, *ends]
    return rng.choice([x for x in values if low <= x <= high])


def _string(rng, schema):
    if "pattern" in schema:  # of a place in a list, the only one
        return str(rng.choice([1, 2, 5, rng.randint(1, 9999)]))
    least, most = schema.get("minLength", 0), schema.get("maxLength", 2000)
    if rng.random() < 0.7:
        return rng.choice([word for word in WORDS if least <= len(word) <= most])
    length = most if rng.random() < 0.02 else rng.randint(least, min(most, 40))
    return "".join(rng.choices(_LETTERS, k=length))


def _array(rng, schema):
    least, most = schema.get("minItems", 0), schema.get("maxItems", 6)
    length = rng.randint(least, min(most, 6))
    if rng.random() < 0.005:
        length = rng.choice([most, most + 1])
    if length > 20:  # the same again, so that it is made in time
        return [_value(rng, schema.get("items", {}))] * length
    return [_value(rng, schema.get("items", {})) for _ in range(length)]


def _object(rng, schema):
    if "properties" not in schema:
        inner, names = schema.get("additionalProperties") or {}, schema.get("propertyNames")
        keys = [_string(rng, names or {"minLength": 1}) for _ in range(rng.randint(0, 3))]
        return {key: _value(rng, inner) for key in keys}
    needed = schema.get("required", ())
    fields = schema["properties"].items()
    chosen = [pair for pair in fields if pair[0] in needed or rng.random() < 0.35]
    return {name: _value(rng, one) for name, one in chosen}


def _anything(rng, depth=3):
    """Any JSON."""
    dice = rng.randint(0, 7 if depth else 5)
    if dice == 6:
        return [_anything(rng, depth - 1) for _ in range(rng.randint(0, 4))]
    if dice == 7:
        return {_string(rng, {}): _anything(rng, depth - 1) for _ in range(rng.randint(0, 4))}
    integer = rng.choice([0, -1, 2**31, 2**63 - 1, -(2**63)])
    return [None, True, False, integer, rng.gauss(0, 10), _string(rng, {})][dice]


_MAKERS = {
    "null": lambda rng, schema: None,
    "boolean": lambda rng, schema: rng.random() < 0.5,
    "integer": _integer,
    "number": _number,
    "string": _string,
    "array": _array,
    "object": _object,
}
