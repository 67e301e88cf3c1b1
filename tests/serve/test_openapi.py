"""The OpenAPI document and the page of routes say what the routes are."""

import json
import re

from robirank.serve.openapi import documentation_page, field_comments, openapi_document
from robirank.serve.problems import CODES
from robirank.serve.routes import ROUTES
from serve.shop import shop


def test_every_route_is_in_the_document():
    document = openapi_document()
    told = {(m.upper(), path) for path, methods in document["paths"].items() for m in methods}
    assert told == {(route.method, route.path) for route in ROUTES}
    names = [o["operationId"] for methods in document["paths"].values() for o in methods.values()]
    assert len(set(names)) == len(names)


def test_every_reference_leads_to_a_type():
    document = openapi_document()
    names = re.findall(r"#/components/schemas/(\w+)", json.dumps(document))
    assert set(names) == set(document["components"]["schemas"])


def test_what_is_said_of_fields_is_in_the_document():
    question = openapi_document()["components"]["schemas"]["Question"]["properties"]
    assert question["n"]["description"] == "The length of the list."
    assert (question["n"]["maximum"], question["n"]["default"]) == (1000, 10)
    assert len(field_comments()) > 30


def test_the_document_and_the_page_are_served():
    with shop() as client:
        assert client.get("/openapi.json").json() == openapi_document()
        page = client.get("/docs")
        assert page.headers["content-type"].startswith("text/html")
        assert page.content.decode() == documentation_page()
        assert client.get("/").status == 200
    for route in ROUTES:
        assert f"{route.method} {route.path}" in documentation_page()
    for code in CODES:
        assert code in documentation_page()
