"""How a report looks: light and dark as the reader's system is, on paper light."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root {
  color-scheme: light dark;
  --page: #ffffff; --card: #f6f7f9; --ink: #1c1e21; --faint: #5a6068; --line: #d5d8dd;
  --accent: #1f5fbf; --good: #00694c; --bad: #b03a00; --warn: #7a5200;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #1d1f22; --card: #26292d; --ink: #e2e4e8; --faint: #a3a9b3; --line: #3d4148;
    --accent: #86b4ff; --good: #4fd0a5; --bad: #ff9a66; --warn: #f0c465;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1rem; max-width: 78rem; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif;
  overflow-wrap: anywhere;
}
h1 { font-size: 1.6rem; line-height: 1.25; margin: .5rem 0; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 .6rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1.02rem; margin: 1.4rem 0 .4rem; }
p { margin: .5rem 0; max-width: 68rem; }
a { color: var(--accent); }
nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; list-style: none; padding: 0; }
.faint, figcaption { color: var(--faint); }
p.faint, figcaption { font-size: .9rem; }
figcaption { margin-bottom: .4rem; }
.verdict { border-left: 4px solid var(--accent); padding: .4rem .8rem; background: var(--card); }
.caution { border-left: 4px solid var(--warn); padding: .4rem .8rem; background: var(--card); }
.good { color: var(--good); } .bad { color: var(--bad); } .warn { color: var(--warn); }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(14rem, 1fr)); gap: .5rem;
  margin: .8rem 0; }
.facts div { background: var(--card); border: 1px solid var(--line); border-radius: .4rem;
  padding: .35rem .6rem; }
.facts dt { color: var(--faint); font-size: .82rem; }
.facts dd { margin: 0; font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0; font-variant-numeric: tabular-nums;
  font-size: .9rem; }
th, td { border-bottom: 1px solid var(--line); padding: .2rem .7rem .2rem 0; text-align: left;
  overflow-wrap: normal;
  vertical-align: top; }
th { font-weight: 600; }
td.number, th.number { text-align: right; white-space: nowrap; }
td.name { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .85rem;
  min-width: 14rem; overflow-wrap: anywhere; }
tr.marked td { background: var(--card); font-weight: 600; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: .4rem; padding: .6rem;
  max-height: 28rem; overflow: auto; white-space: pre-wrap; font-size: .82rem; }
details { margin: .5rem 0; }
summary { cursor: pointer; color: var(--accent); }
figure { margin: 1rem 0; }
svg { display: block; max-width: none; height: auto; }
svg.bars { width: 100%; min-width: 34rem; max-width: 56rem; }
svg text { fill: var(--ink); font-family: inherit; }
svg text.faint { fill: var(--faint); }
svg text.on-light { fill: #10131a; } svg text.on-dark { fill: #ffffff; }
svg .axis { stroke: var(--faint); } svg .frame { stroke: var(--line); fill: none; }
svg .empty { fill: var(--card); stroke: var(--line); } svg .curve { fill: var(--accent); }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1rem; list-style: none; padding: 0;
  font-size: .9rem; }
.legend li { display: flex; align-items: center; gap: .4rem; }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(22rem, 100%), 1fr));
  gap: 1rem; }
.plots svg { width: 100%; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); }
@media (max-width: 40rem) { body { padding: .6rem; font-size: 14px; } }
@media print {
  :root { --page: #fff; --card: #f6f7f9; --ink: #000; --faint: #444; --line: #bbb;
    --accent: #1f5fbf; --good: #00694c; --bad: #b03a00; --warn: #7a5200; }
  body { max-width: none; font-size: 10pt; }
  .scroll { overflow: visible; } svg { max-width: 100%; }
  pre { max-height: none; } nav { display: none; }
  figure, tr { break-inside: avoid; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""
