"""What the page is made of, and what it may load."""

import re
from importlib import resources

from robirank.serve.static import page_files


def test_the_page_is_small_and_alone():
    files = page_files()
    assert sum(len(content) for _, content in files.values()) < 150_000
    for path, (_, content) in files.items():
        addresses = set(re.findall(r"https?://[^\s\"'`)]+", content.decode()))
        assert addresses <= {"http://www.w3.org/2000/svg"}, path


def test_every_module_that_is_imported_is_there():
    files = page_files()
    for path, (_, content) in files.items():
        for name in re.findall(r'from "\./(.*?)"', content.decode()):
            assert f"/{name}" in files, path


def test_nothing_but_the_files_of_the_server_may_be_loaded(client):
    for path in ("/", "/docs", "/app.js"):
        policy = client.get(path).headers["content-security-policy"]
        rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
        assert rules["default-src"] == "'none'"
        assert {rules[f"{kind}-src"] for kind in ("script", "style", "connect")} == {"'self'"}
        text = client.get(path).content.decode()
        if not path.endswith(".js"):
            assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=", text), path


def test_every_file_of_the_folder_is_served(client):
    for file in resources.files("robirank.serve").joinpath("page").iterdir():
        path = "/" if file.name == "index.html" else f"/{file.name}"
        assert client.get(path).content == file.read_bytes()
