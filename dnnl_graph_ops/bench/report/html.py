"""One HTML file with everything in it: picture, means, rows, machine. Opens anywhere, loads nothing."""

from __future__ import annotations

import base64
from collections.abc import Collection
from html import escape

from ...errors import RuntimeUnavailableError
from ..document import Document
from ..rows import Row
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
    title = "Transposed convolutions: dnnl_graph_ops against its peers"
    try:
        encoded = base64.b64encode(plot.render(document, "svg")).decode()
        picture = (
            f'<img alt="Speed-up per layer, roofline, latency against size" src="data:image/svg+xml;base64,{encoded}">'
        )
    except RuntimeUnavailableError as error:
        picture = f'<p class="note">No picture: {escape(str(error))}</p>'
    notes = "".join(f"<li>{escape(note)}</li>" for note in document.notes)
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        '<meta name=viewport content="width=device-width,initial-scale=1">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f"<h1>{escape(title)}</h1><small>{escape(document.created)}</small>",
        f"<h2>Geometric means</h2><p class=note>Ratios are {escape(summary.RATIO_MEANING)}.</p>",
        _means(document),
        f"<h2>Pictures</h2>{picture}",
        "<h2>Every row</h2><p class=note>A click on a column's head sorts. In brackets: 95 % intervals.</p>",
        _table(document),
        "<h2>Where and how</h2><ul>",
        "".join(f"<li>{escape(line.strip())}</li>" for line in head),
        f"{notes}</ul><p class=note>Command: <code>{escape(document.command)}</code></p>",
        f"<script>{_SCRIPT}</script></html>",
    ]
    return "\n".join(parts) + "\n"


def _means(document: Document) -> str:
    names = ["direction", "type", "against", "compared", "mean", "lowest", "highest", "faster in"]
    body = []
    for line in summary.lines(document):
        cells = [
            _text(summary.DIRECTION_NAMES[line.direction]),
            _text(line.dtype),
            _text(line.peer),
            _text(line.what),
            _ratio(line.mean),
            _ratio(line.lowest),
            _ratio(line.highest),
            _number(line.wins / line.count, f"{line.wins} of {line.count}"),
        ]
        body.append(f"<tr>{''.join(cells)}</tr>")
    return _whole(names, 4, body)


def _table(document: Document) -> str:
    peers = document.peers()
    names = [
        "layer",
        "direction",
        "type",
        "gmac",
        "ours",
        "native",
        "best variant",
        "GFLOP/s",
        "of peak",
        "spread",
    ]
    names += [*(f"{peer}" for peer in peers), "rounds", "remarks"]
    return _whole(names, 3, [_line(row, peers) for row in document], wide={"best variant", "remarks"})


def _line(row: Row, peers: list[str]) -> str:
    own = row.own
    source = escape(f"{row.descriptor}; {row.problem.get('source', '')}")
    cells = [
        f'<td class=text title="{source}">{escape(row.name)}</td>',
        _text(row.direction),
        _text(row.dtype),
    ]
    cells.append(_number(row.gmacs, f"{row.gmacs:.3f}"))
    if own is None:
        cells += [f"<td>{escape(row.status)}</td>", *["<td></td>"] * (6 + len(peers))]
    else:
        cells += [
            _number(own.median, summary.seconds_text(own.median)),
            _number(own.native, summary.seconds_text(own.native)),
            f'<td class=text title="{escape(own.detail)}">{escape(own.label.partition(" ")[2])}</td>',
            _number(own.gflops, summary.rate_text(own.gflops)),
            _number(own.peak_share, summary.percent_text(own.peak_share)),
            _number(own.spread, summary.percent_text(own.spread)),
        ]
        for peer in peers:
            ratio = row.ratio(peer)
            said = f" <small>[{ratio.low:.2f} {ratio.high:.2f}]</small>" if ratio else ""
            cells.append(_ratio(ratio.median if ratio else None, said))
        cells.append(_number(len(own.rounds), str(len(own.rounds))))
    if own is None:
        cells.append("<td></td>")
    cells.append(f"<td class=remark>{escape(summary.remarks(row))}</td>")
    return f"<tr>{''.join(cells)}</tr>"


def _whole(names: list[str], text_columns: int, body: list[str], wide: Collection[str] = ()) -> str:
    heads = "".join(
        f"<th{' class=text' if i < text_columns or name in wide else ''}>{escape(name)}</th>"
        for i, name in enumerate(names)
    )
    rows = "".join(body)
    table = f"<table class=sort><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    return f"<div class=scroll>{table}</div>"


def _text(value: str) -> str:
    return f"<td class=text>{escape(value)}</td>"


def _number(value: float | None, shown: str) -> str:
    return f'<td data-v="{"" if value is None else value}">{escape(shown)}</td>'


def _ratio(value: float | None, more: str = "") -> str:
    if value is None:
        return '<td data-v="">-</td>'
    kind = " class=good" if value >= 1.05 else " class=bad" if value < 0.95 else ""
    return f'<td{kind} data-v="{value}">{value:.2f}{more}</td>'
