"""Values that a JSON schema allows, as strategies of hypothesis."""

import string

from hypothesis import strategies as st

from serve.shop import BRANDS, ITEMS, USERS

#: Texts that mean something to the server, and others that try to.
WORDS = [
    *(*ITEMS[:9], *USERS[:9], *BRANDS, "brand", "stock", "id", "brand:Acme", "stock > 0"),
    *(
        "../../etc/passwd",
        "%2e%2e",
        "\x00",
        "'; --",
        "stock > 0 or (",
        "nan",
        "\U0001f600",
        "1e999",
    ),
    *("not not stock = 1", "brand in (Acme, Bolt)", "f1", "f2"),
]

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=8,
)


def values(schema, schemas):
    """What a schema allows."""
    if "$ref" in schema:
        return st.deferred(lambda: values(schemas[schema["$ref"].rpartition("/")[2]], schemas))
    if "anyOf" in schema:
        return st.one_of([values(one, schemas) for one in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kind = schema.get("type")
    if kind == "null":
        return st.none()
    if kind == "boolean":
        return st.booleans()
    if kind == "integer":
        low, high = schema.get("minimum", -(2**63)), schema.get("maximum", 2**63 - 1)
        return st.integers(low, min(high, low + 20)) | st.integers(low, high)
    if kind == "number":
        low, high = schema.get("minimum"), schema.get("maximum")
        return st.floats(low, high, allow_nan=False, allow_infinity=False)
    if kind == "string":
        return _texts(schema)
    if kind == "array":
        least, most = schema.get("minItems", 0), min(schema.get("maxItems", 6), 6)
        return st.lists(values(schema.get("items", {}), schemas), min_size=least, max_size=most)
    if kind == "object":
        return _objects(schema, schemas)
    return anything


def _texts(schema):
    if "pattern" in schema:
        return st.from_regex(schema["pattern"], alphabet=string.printable)
    least, most = schema.get("minLength", 0), schema.get("maxLength", 2000)
    words = st.sampled_from([word for word in WORDS if least <= len(word) <= most])
    return words | words | st.text(min_size=least, max_size=min(most, 40))


def _objects(schema, schemas):
    if "properties" not in schema:
        inner = schema.get("additionalProperties", {})
        keys = _texts(schema.get("propertyNames", {"minLength": 1}))
        return st.dictionaries(keys, values(inner or {}, schemas), max_size=3)
    fields = {name: values(one, schemas) for name, one in schema["properties"].items()}
    needed = schema.get("required", [])
    return st.fixed_dictionaries(
        {name: fields[name] for name in needed},
        optional={name: one for name, one in fields.items() if name not in needed},
    )
