"""Text from outside in Markdown: it is shown as it is, and is never markup."""

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from robirank_lab.text import markdown_table, markdown_text

#: Letters with a meaning in Markdown or HTML come often.
LETTERS = st.sampled_from("ab <>&;_*`|[]()!~#\\'-=1.\n") | st.characters(categories=["L", "P", "S"])
MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def shown(inline):
    """The text of an inline token, which must hold nothing else."""
    assert {child.type for child in inline.children} <= {"text"}
    return "".join(child.content for child in inline.children)


@given(st.text(LETTERS))
def test_a_heading_shows_any_text(text):
    tokens = MARKDOWN.parse(f"# {markdown_text(text)} end")
    assert [token.type for token in tokens] == ["heading_open", "inline", "heading_close"]
    assert shown(tokens[1]).split() == [*text.split(), "end"]


@given(st.text(LETTERS))
def test_a_cell_shows_any_text(text):
    lines = markdown_table(["method", "value"], [[f"x {markdown_text(text)}", "1"]])
    cells = [token for token in MARKDOWN.parse("\n".join(lines)) if token.type == "inline"]
    assert [shown(cell).split() for cell in cells[2:]] == [["x", *text.split()], ["1"]]


def test_names_that_mean_nothing_in_markdown_stay_as_they_are():
    for name in ("OHSUMED/Fold1", "RoBiRank, λ given", "max_leaf_nodes = 7", "rank:ndcg"):
        assert markdown_text(name) == name
