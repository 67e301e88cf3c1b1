"""README and guides: every block of Python and every command runs as it is printed.

A block that cannot run here has a comment before it, which readers do not see:
``<!-- not run: why -->``. What pages call their own files is made first. Pages run in order, each
in a folder of its own unless it goes on from the page before.
"""

import doctest
import gzip
import os
import re
import shlex
import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
from sklearn import config_context
from typer.testing import CliRunner

from robirank import make_interactions, make_ranking, save_letor
from robirank.cli.app import app

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "docs" / "guide"
#: Pages of their own, beside the guide.
BESIDE = [
    *sorted((ROOT / "docs" / "tutorials").glob("*.md")),
    *(ROOT / "docs" / name for name in ("install.md", "coming-from.md", "faq.md", "speed.md")),
]
#: Where pictures that pages draw are kept: `ROBIRANK_PICTURES=docs/assets` writes them anew.
PICTURES = os.environ.get("ROBIRANK_PICTURES")

#: Pages that go on from others, in their folder.
GOES_ON = {"latent-cli.md": ["cli.md"]}
ALONE = {page.name for page in GUIDE.glob("*.md")} - {
    n for pages in GOES_ON.values() for n in pages
}
PAGES = [
    [ROOT / "README.md"],
    [ROOT / "docs" / "index.md"],
    *([page] for page in BESIDE),
    *([GUIDE / before for before in [*GOES_ON.get(name, []), name]] for name in sorted(ALONE)),
]

BLOCK = re.compile(
    r"(?P<not_run><!-- not run: [^>]+ -->\n)?^```(?P<language>\w*)\n(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
ARTISTS = ["Metallica", "Slayer", "ABBA", "Queen", "AC/DC"]


class Block(NamedTuple):
    line: int
    language: str
    code: str
    runs: bool


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    return [
        Block(text.count("\n", 0, m.start("code")), m["language"], m["code"], m["not_run"] is None)
        for m in BLOCK.finditer(text)
    ]


def pictures_of(page: Path) -> list[str]:
    """What a tutorial shows, and so must draw."""
    if page.parent.name != "tutorials":
        return []
    return re.findall(r"\(\.\./assets/(tutorial-[\w-]+\.svg)\)", page.read_text("utf-8"))


def write_plays(path: Path, data, **more) -> None:
    names = np.array([*ARTISTS, *(f"artist {n}" for n in range(len(ARTISTS), data.n_items))])
    columns = {
        "user": data.user_codes(),
        "artist": names[data.indices],
        "plays": data.matrix.data.astype(int),
    }
    frame = pl.DataFrame({name: [*column, *more.get(name, [])] for name, column in columns.items()})
    content = frame.write_csv(separator="\t").encode()
    if path.suffix == ".gz":
        content = gzip.compress(content)
    path.write_bytes(content)


def write_files() -> None:
    """What the pages call their own."""
    data = make_interactions(300, 120, 5000, random_state=0)
    write_plays(Path("plays.tsv.gz"), data)
    new = {"user": [9001, 9001], "artist": ["Slayer", "artist of today"], "plays": [2, 1]}
    write_plays(Path("today.tsv"), data.take(data.user_codes() < 3), **new)
    judged = make_ranking(n_queries=60, n_docs=10, n_features=5, noise=0.4, random_state=0)
    number = np.unique(judged.qid, return_inverse=True)[1]
    for fold in ("Fold1", "DATA/Fold1", "DATA/Fold2"):
        Path(fold).mkdir(parents=True)
        for part, name in enumerate(("train", "vali", "test")):
            save_letor(Path(fold, f"{name}.txt"), judged.take((number + len(fold)) % 3 == part))
    Path("plays.tsv").write_text("ann\thelp\t3\nbob\thelp\t1\nann\tgirl\t2\n")
    Path("later.tsv").write_text("ann\thelp\t3\nzoe\thelp\t1\n")
    Path("orders.csv").write_text("customer_id,sku,qty\nc1,s9,2\nc2,s9,1\n")
    Path("ratings.csv").write_text(
        "userId,movieId,rating,timestamp\n1,31,2.5,1260759144\n7,31,3.0,851866703\n"
    )
    example = next(b.code for b in blocks_of(GUIDE / "data.md") if b.language == "text")
    lines = example.splitlines(keepends=True)
    Path("example.txt").write_text(example)
    Path("broken.txt").write_text("".join([lines[0], "0 qid:10 1:high\n", lines[2]]))
    for fold in ("Fold1", "Fold2"):
        Path("MQ2008", fold).mkdir(parents=True)
        for part in ("train", "vali", "test"):
            Path("MQ2008", fold, f"{part}.txt").write_text(example)


def run_shell(code: str, where: str) -> None:
    for command in code.replace("\\\n", " ").splitlines():
        program, *arguments = shlex.split(command, comments=True)
        assert program == "robirank", f"{where}: {program} cannot be run here; say so"
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, f"{where}: {command}\n{result.output}\n{result.exception!r}"


def run_python(code: str, names: dict, where: str) -> None:
    if ">>>" not in code:
        exec(compile(code, where, "exec"), names)
        return
    examples = doctest.DocTestParser().get_doctest(code, names, where, None, None)
    runner = doctest.DocTestRunner()
    assert runner.run(examples, clear_globs=False).failed == 0, where
    names.update(examples.globs)


@pytest.mark.parametrize("pages", PAGES, ids=lambda pages: pages[-1].name)
@pytest.mark.filterwarnings("ignore")
def test_blocks_run_as_printed(pages, tmp_path, monkeypatch):
    for name in ("usearch", "lightgbm", "matplotlib"):
        pytest.importorskip(name)
    monkeypatch.chdir(tmp_path)
    write_files()
    for page in pages:
        names: dict = {"__name__": page.stem}
        for block in blocks_of(page):
            where = f"{page.relative_to(ROOT)}:{block.line}"
            assert block.language, f"{where}: say what the block is written in"
            if block.language == "bash" and block.runs:
                run_shell(block.code, where)
            elif block.language == "python" and block.runs:
                with config_context():
                    run_python(block.code, names, where)
        for picture in pictures_of(page):
            assert Path(picture).is_file(), f"{page.name} shows {picture} and does not draw it"
            if PICTURES:
                shutil.copy(picture, ROOT / PICTURES)


def test_most_blocks_run():
    """The comment is for the few that cannot."""
    code = [b for pages in PAGES for page in pages for b in blocks_of(page)]
    code = [b for b in code if b.language in ("python", "bash")]
    assert sum(b.runs for b in code) > 0.75 * len(code)


def test_a_page_that_is_wrong_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    marked = "<!-- not run: why -->\n```python\n1/0\n```"
    page.write_text(f"```bash\nrobirank latent tarin x\n```\n{marked}\n")
    wrong, marked = blocks_of(page)
    assert (wrong.runs, marked.runs) == (True, False)
    with pytest.raises(AssertionError, match="tarin"):
        run_shell(wrong.code, "page.md")
    with pytest.raises(AssertionError, match="curl cannot be run here"):
        run_shell("curl http://localhost", "page.md")
    with pytest.raises(AssertionError, match=r"page\.md"):
        run_python(">>> 1 + 1\n3\n", {}, "page.md")
