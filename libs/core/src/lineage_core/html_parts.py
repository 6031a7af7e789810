"""Parts of HTML that notebooks show.

Every style is inline: renderers of notebooks drop scripts, and some of them style elements. Colours of text and
background are the notebook's, so that both suit its theme; coloured marks are readable on light and
on dark backgrounds. Nothing is loaded from other addresses. Texts come from jobs: all are escaped here.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape

from lineage_core.terminal_text import plain

TONES = {"good": "#2e9e5b", "doubtful": "#c98a00", "bad": "#d64545", "none": "#888888"}
"""Colours of marks, each with a contrast of at least 3 to white and to black; the words carry the same meaning."""
NO_FORMULAS = "tex2jax_ignore mathjax_ignore"
"""Notebooks render text between dollar signs as formulas, which may contain links; amounts are not formulas."""
TABLE = "border-collapse:collapse;margin:0 0 0.5em 0;color:inherit;background:transparent"
CELL = (
    "text-align:left;vertical-align:top;padding:2px 12px 2px 0;color:inherit;background:transparent;"
    "border:none;border-bottom:1px solid rgba(128,128,128,0.3)"
)
CODE = (
    "font-family:monospace;white-space:pre-wrap;overflow-wrap:anywhere;color:inherit;"
    "background:transparent;border:none;padding:0"
)


def text(value: str) -> str:
    """A text as content or as the value of an attribute; what would turn its lines around is written out."""
    return escape(plain(value, keep="\n\t"), quote=True)


def code(value: str) -> str:
    """A text in a monospaced font."""
    return f'<code style="{CODE}">{text(value)}</code>'


def block(parts: Iterable[str]) -> str:
    """Parts, one below the other. What is wider than the notebook scrolls, also by keys once it has the focus."""
    style = "color:inherit;overflow-x:auto"
    return f'<div class="{NO_FORMULAS}" style="{style}" tabindex="0">{"".join(parts)}</div>'


def heading(value: str) -> str:
    """A heading line."""
    return f'<div style="font-weight:bold;margin:0.3em 0">{text(value)}</div>'


def note(word: str, value: str = "", tone: str = "none") -> str:
    """A word in bold with a coloured mark, and its explanation."""
    explanation = f": {text(value)}" if value else ""
    return (
        f'<div style="border-left:4px solid {TONES[tone]};padding-left:8px;margin:2px 0;color:inherit">'
        f"<b>{text(word)}</b>{explanation}</div>"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML already; without a head where it is empty."""
    titles = "".join(f'<th style="{CELL};font-weight:bold">{text(title)}</th>' for title in head)
    body = "".join(
        f"<tr>{''.join(f'<td style={chr(34)}{CELL}{chr(34)}>{cell}</td>' for cell in row)}</tr>"
        for row in rows
    )
    above = f"<thead><tr>{titles}</tr></thead>" if head else ""
    return f'<table style="{TABLE}">{above}<tbody>{body}</tbody></table>'


def hyperlink(url: str, words: str) -> str:
    """A link to a page of Lineage Master: its address starts with http:// or https://."""
    assert url.startswith(("http://", "https://"))
    return (
        f'<a href="{text(url)}" target="_blank" rel="noopener noreferrer" '
        f'style="color:inherit;text-decoration:underline">{text(words)}</a>'
    )


def picture(png: bytes, words: str) -> str:
    """A picture that is part of the page itself, each of its pixels as it is; ``words`` are for those who don't see it."""
    shown = "max-width:100%;image-rendering:pixelated;border:1px solid rgba(128,128,128,0.3)"
    content = b64encode(png).decode()
    return f'<img src="data:image/png;base64,{content}" alt="{text(words)}" style="{shown}"/>'


def mime_bundle(html: str, words: str) -> dict[str, str]:
    """What a notebook shows: HTML, or the text where it shows none."""
    return {"text/html": html, "text/plain": plain(words, keep="\n\t")}
