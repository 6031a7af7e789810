"""What notebooks show: safe whatever jobs wrote, readable on light and on dark grounds, and of this machine alone."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import unescape
from typing import Any

import pytest

from lineage.verdicts import ApplicationVerdict
from lineage_core.contract.graph import LinkRecord
from lineage_core.contract.message import Begin
from lineage_core.contract.verdict import StoreCounts, judge
from lineage_core.html_parts import CELL, CODE, TABLE, TONES, hyperlink, text
from lineage_core.tracing.trace_result import Direction
from lineage_emitter.program import drawing
from lineage_emitter.program.cell import CellLineage, CellOutput
from lineage_emitter.program.drawing import ProgramGraph
from lineage_query.answers import Answer, Group, Item
from tests.support.memory_graph import node

pytestmark = pytest.mark.unit

HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg/onload=alert(1)>',
    "' style='position:fixed' onmouseover='alert(1)",
    "</code></td></table></div><iframe src=http://evil.example>",
    "javascript:alert(1)",
    "&lt;b&gt; & &#60;script&#62;",
    "</title></svg><style>*{display:none}</style>",
    "safe\u202egpj.exe\u2028\x1b[2J\x00",
    "{{constructor.constructor('alert(1)')()}} ${alert(1)} $$\\href{javascript:alert(1)}{x}$$",
)
ALLOWED = {
    "div", "table", "thead", "tbody", "tr", "th", "td", "code", "b", "a",
    "svg", "g", "title", "rect", "text", "path",
}  # fmt: skip
ATTRIBUTES = {
    "class", "style", "tabindex", "href", "target", "rel", "width", "height", "viewBox", "fill", "fill-opacity", "stroke", "stroke-width",
    "x", "y", "rx", "d", "font-family", "font-size",
}  # fmt: skip
SVG = "{http://www.w3.org/2000/svg}"


def answer(value: str) -> Answer:
    item = Item(f"{value}#0#1", f"{value}:1", value)
    group = Group("0", value, value, value, 30, (item,) * 25, app=value)
    return Answer(
        value, Direction.BACKWARD, (value,), (group,), False, (value,), (group,), (value,), False, False, (value, "b")
    )  # fmt: skip


def verdict(value: str) -> ApplicationVerdict:
    counts = StoreCounts(0, 0, 0, 0, inexact={value: (value,)}, problems={value: value})
    judged = judge(
        [Begin(app=value, name=value, started_at=0.0, earlier=(value,))], counts, now=1.0
    )
    return ApplicationVerdict(value, replace(judged, limited={value: (2, 1)}))


def graph(value: str) -> ProgramGraph:
    nodes = [node("0", "source", op=value, path=value), node("1", "sink", op=value, reason=value)]
    return ProgramGraph.of(nodes, [LinkRecord("0", "1")], {"1"})


def cell(value: str) -> CellLineage:
    return CellLineage(
        value, (value,), (CellOutput(value, value, value),), (value,), "http://127.0.0.1:1/apps/a"
    )


@pytest.mark.parametrize("of", [answer, verdict, graph, cell])
@pytest.mark.parametrize("value", HOSTILE)
def test_what_jobs_wrote_is_text_and_nothing_else(of: Callable[[str], Any], value: str) -> None:
    shown = of(value)
    bundle = shown._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}
    assert bundle["text/html"] == shown._repr_html_()
    root = ET.fromstring(bundle["text/html"])
    assert root.get("class") == "tex2jax_ignore mathjax_ignore"
    for element in root.iter():
        assert element.tag.removeprefix(SVG) in ALLOWED
        assert set(element.attrib) <= ATTRIBUTES
        assert element.get("href", "http://127.0.0.1:1/apps/a") == "http://127.0.0.1:1/apps/a"
        assert "url(" not in element.get("style", "")
    # The skeleton is that of harmless values.
    harmless = ET.fromstring(of("harmless")._repr_html_())
    assert [one.tag for one in root.iter()] == [one.tag for one in harmless.iter()]
    assert [one.get("style") for one in root.iter()] == [
        one.get("style") for one in harmless.iter()
    ]
    for content in ("".join(root.itertext()), bundle["text/plain"]):
        assert not re.search("[\u202e\u2028\x1b\x00]", content)


def test_texts_keep_their_lines_and_lose_what_turns_them_around() -> None:
    assert text("a\n\tb 'c' \"d\"") == "a\n\tb &#x27;c&#x27; &quot;d&quot;"
    assert unescape(text("<é\u202e>")) == "<é\\u202e>"
    with pytest.raises(AssertionError):
        hyperlink("javascript:alert(1)", "x")


def luminance(colour: Sequence[float]) -> float:
    """Relative luminance (WCAG 2.2)."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: Sequence[float], other: Sequence[float]) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def rgb(colour: str) -> Sequence[float]:
    return tuple(int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))


@pytest.mark.parametrize(("ground", "letters"), [("#ffffff", "#212121"), ("#111111", "#e0e0e0")])
def test_all_can_be_read_in_light_and_in_dark_themes(ground: str, letters: str) -> None:
    """Letters and grounds are the notebook's; boxes and marks are seen on both."""
    for style in (TABLE, CELL, CODE):
        assert "color:inherit" in style
        assert "background:transparent" in style
    for fill in (*drawing.FILLS.values(), drawing.FILL):
        mixed = [
            drawing.TINT * a + (1 - drawing.TINT) * b
            for a, b in zip(rgb(fill), rgb(ground), strict=True)
        ]
        assert contrast(mixed, rgb(letters)) >= 4.5, fill
    for tone in TONES.values():
        assert contrast(rgb(tone), rgb(ground)) >= 2.9, tone
    svg = graph("a").svg()
    assert set(re.findall(r' fill="([^"]+)"', svg)) <= {
        "currentColor",
        "none",
        drawing.FILL,
        *drawing.FILLS.values(),
    }


def test_an_answer_shows_what_was_asked_what_was_found_and_what_is_to_be_said_of_it() -> None:
    shown = answer("in.txt")
    plain = shown._repr_mimebundle_()["text/plain"]
    assert plain.splitlines()[:2] == ["30 rows of in.txt (in.txt, in.txt)", "in.txt:1: in.txt"]
    assert "from 30 rows of in.txt (in.txt, in.txt)" in plain
    assert plain.count("... and 10 more") == 2
    assert "superset: in.txt" in plain
    assert "incomplete: " in plain
    assert "exact" not in plain.replace("not exact", "")
    assert repr(shown) == "<Answer: in.txt from 30 rows of in.txt (in.txt); not exact, incomplete>"
    unknown = replace(shown, reasons=(), groups=(), complete=True)
    assert "from nothing: no item was found" in unknown._repr_html_()
    assert "superset: there may be more" in unknown._repr_mimebundle_()["text/plain"]
    fine = replace(unknown, exact=True)._repr_mimebundle_()
    assert "exact" in fine["text/plain"]
    assert "incomplete" not in fine["text/html"]


def test_a_verdict_shows_itself_as_the_command_prints_it() -> None:
    shown = verdict("app-1")
    assert str(shown).splitlines()[0] == "app-1: incomplete (running)"
    assert "the same program captured app-1 before; this is no verdict on it" in str(shown)
    html = shown._repr_html_()
    for reason in shown.verdict.reasons:
        assert text(reason) in html
    assert "limited at node app-1: 1 of 2 records (50.00%) have lineage" in html


def test_a_cell_without_actions_says_so() -> None:
    empty = CellLineage("app-1", (), (), ())
    assert "no action ran in this cell" in str(empty)
    assert "no action ran in this cell" in empty._repr_html_()
    assert "href" not in empty._repr_html_()
