"""A report as one HTML file: picture, means, rows, machine. The file loads nothing."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from html import escape

from ...errors import RuntimeUnavailableError
from ..document import Document
from . import plot, summary

_STYLE = """
:root{color-scheme:light dark;--line:#8884;--good:#00704a;--bad:#b3401a}
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;padding:0 1rem;max-width:1500px}
h1{font-size:1.6rem;margin:0 0 .3rem}h2{font-size:1.15rem;margin:2rem 0 .5rem}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.86rem}
th,td{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th{cursor:pointer;position:sticky;top:0;background:Canvas}th:hover{text-decoration:underline}
td.text,th.text{text-align:left}td.good{color:var(--good);font-weight:600}td.bad{color:var(--bad);font-weight:600}
img{width:100%;background:#fff;border:1px solid var(--line)}small,.note{color:GrayText}
td.remark{white-space:normal;text-align:left;min-width:22rem;font-size:.8rem}
@media(prefers-color-scheme:dark){:root{--good:#5ed3a4;--bad:#ff9a6b}}
"""
_SCRIPT = """
for(const table of document.querySelectorAll('table.sort')){table.tHead.addEventListener('click',event=>{
const cell=event.target.closest('th');if(!cell)return;const index=cell.cellIndex;
const down=cell.dataset.down==='1';cell.dataset.down=down?'0':'1';const body=table.tBodies[0];
const value=row=>{const c=row.cells[index];const v=c.dataset.v;
return v===undefined?c.textContent:(v===''?NaN:+v)};
[...body.rows].sort((a,b)=>{const x=value(a),y=value(b);
const o=typeof x==='number'?(isNaN(x)?1:isNaN(y)?-1:x-y):x.localeCompare(y);return down?-o:o})
.forEach(r=>body.append(r));
});}
"""


def page(document: Document) -> str:
    """The report. Without matplotlib it has no picture and says so."""
    head = summary.header(document)
    title = f"{summary.subject(document).capitalize()}: dnnl_graph_ops against its peers"
    try:
        encoded = base64.b64encode(plot.render(document, "svg")).decode()
        picture = f'<img alt="Speedup per layer" src="data:image/svg+xml;base64,{encoded}">'
    except RuntimeUnavailableError as error:
        picture = f'<p class="note">No picture: {escape(str(error))}</p>'
    notes = "".join(f"<li>{escape(note)}</li>" for note in document.notes)
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        '<meta name=viewport content="width=device-width,initial-scale=1">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f"<h1>{escape(title)}</h1><small>{escape(document.created)}</small>",
        *_means(document),
        f"<h2>Picture</h2>{picture}",
        "<h2>Every row</h2><p class=note>A click on a column's head sorts. Brackets have 95 % intervals.</p>",
        _table(document),
        "<h2>Where and how</h2><ul>",
        "".join(f"<li>{escape(line.strip())}</li>" for line in head),
        f"{notes}</ul><p class=note>Command: <code>{escape(document.command)}</code></p>",
        f"<script>{_SCRIPT}</script></html>",
    ]
    return "\n".join(parts) + "\n"


def _means(document: Document) -> Iterator[str]:
    if body := summary.means(document):
        yield f"<h2>{escape(summary.MEANS_TITLE.capitalize())}</h2>"
        yield _whole(summary.columns_of_means(document.peers()), ["".join(map(_cell, cells)) for cells in body])


def _table(document: Document) -> str:
    peers = document.peers()
    body = [
        "".join(map(_cell, summary.cells(row, peers))) + f"<td class=remark>{escape(summary.remarks(row))}</td>"
        for row in document
    ]
    return _whole([*summary.columns(peers), "remarks"], body)


def _whole(names: Iterable[str], body: Iterable[str]) -> str:
    heads = "".join(f"<th{' class=text' if name in summary.WORDS else ''}>{escape(name)}</th>" for name in names)
    rows = "".join(f"<tr>{cells}</tr>" for cells in body)
    table = f"<table class=sort><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    return f"<div class=scroll>{table}</div>"


def _cell(cell: summary.Cell) -> str:
    title = f' title="{escape(cell.title)}"' if cell.title else ""
    if cell.value is None:
        # nothing measured sorts after all numbers
        sort = ' data-v=""' if cell.text in ("", "-") else " class=text"
        return f"<td{sort}{title}>{escape(cell.text)}</td>"
    good, bad = cell.is_ratio and cell.value >= 1.05, cell.is_ratio and cell.value < 0.95
    kind = " class=good" if good else " class=bad" if bad else ""
    note = f" <small>{escape(cell.note)}</small>" if cell.note else ""
    return f'<td{kind} data-v="{cell.value}">{escape(cell.text)}{note}</td>'
