# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""The page's style sheet.

Pods are blue, darker for larger ones and numbered; free GPUs are hollow, solid green edges where a slot uses them and
dashed orange ones where they are stranded; unhealthy ones are hatched. Blue and orange are told apart with every common
colour blindness, and nothing is said by colour alone.
"""

from __future__ import annotations

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --soft: #f5f6f7; --line: #dcdfe3; --ink: #16191d; --dim: #5a626c;
  --one: #bfdcf3; --two: #7fb7e3; --four: #2b78b8; --eight: #0c3c69; --on-light: #0c2a45; --on-dark: #ffffff;
  --used: #8fa3b8; --free: #0a7d5f; --lost: #c2500a; --lost-soft: #fdf1e7; --sick: #777e87;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --paper: #14171b; --soft: #1c2026; --line: #333a43; --ink: #e8eaed; --dim: #a0a8b2;
    --one: #23455f; --two: #2f6f9f; --four: #62aee6; --eight: #c6e4fb; --on-light: #eaf4fc; --on-dark: #0b2236;
    --used: #56677a; --free: #46c79f; --lost: #ff9a52; --lost-soft: #2c2118; --sick: #8b939d;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, "Segoe UI", Roboto, Arial, sans-serif;
  font-variant-numeric: tabular-nums; print-color-adjust: exact; -webkit-print-color-adjust: exact;
}
main { max-width: 1232px; margin: 0 auto; padding: 36px 24px 64px; }
h1, h2, h3, p, ul, ol, dl, dd, figure { margin: 0; padding: 0; }
ul, ol { list-style: none; }
h1 { font-size: 30px; line-height: 1.2; letter-spacing: -0.015em; font-weight: 650; text-wrap: balance; }
h2 { font-size: 19px; line-height: 1.3; letter-spacing: -0.005em; margin: 52px 0 4px; }
h3 { font-size: 15px; line-height: 1.4; overflow-wrap: anywhere; }
.name { font: 12.5px/1.4 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
.dim { color: var(--dim); }
.lost { color: var(--lost); font-weight: 600; }
.about { color: var(--dim); margin-bottom: 16px; max-width: 60em; text-wrap: pretty; }
.title { display: flex; align-items: center; gap: 10px; font-weight: 600; margin-bottom: 30px; --cell: 16px; --gpus: 4; }
.totals { color: var(--dim); margin-bottom: 8px; }
.totals b { color: var(--ink); font-weight: 600; }
.lead { font-size: 17px; margin-top: 8px; max-width: 50em; text-wrap: pretty; }

.bar { display: flex; gap: 2px; height: 22px; }
.bar.thin { height: 12px; min-width: 110px; }
.bar span { min-width: 3px; border-radius: 2px; }
.is-used { background: var(--used); }
.is-usable { background: var(--free); }
.is-free { border: 1.5px solid var(--free); }
.is-lost {
  border: 1.5px solid var(--lost);
  background: repeating-linear-gradient(135deg, var(--lost) 0 1.5px, transparent 1.5px 6px);
}
.is-sick, .gpus .u {
  border: 1.5px solid var(--sick);
  background: repeating-linear-gradient(45deg, var(--sick) 0 1px, transparent 1px 4px),
    repeating-linear-gradient(135deg, var(--sick) 0 1px, transparent 1px 4px);
}
.key { display: flex; flex-wrap: wrap; gap: 4px 22px; margin: 10px 0 0; font-size: 13px; color: var(--dim); }
.key li { display: flex; align-items: center; gap: 7px; }
.key b { color: var(--ink); font-weight: 600; }
.swatch { width: 15px; height: 15px; border-radius: 3px; flex: none; }
.hero { margin-top: 26px; }
.hero .bar { height: 34px; }
.hero * + p { margin-top: 16px; }

.tiles { display: grid; grid-template-columns: repeat(4, 1fr); gap: 12px; margin-top: 26px; }
.tile { background: var(--soft); border-radius: 8px; padding: 14px 16px; min-width: 0; overflow-wrap: anywhere; }
.tile.loud { background: var(--lost-soft); box-shadow: inset 3px 0 0 var(--lost); }
.tile dt { font-size: 13px; color: var(--dim); }
.tile dd { font-size: 25px; line-height: 1.25; font-weight: 620; letter-spacing: -0.01em; }
.tile p { font-size: 13px; font-weight: 400; line-height: 1.4; letter-spacing: 0; color: var(--dim); margin-top: 2px; }

.slots { display: grid; grid-template-columns: max-content minmax(0, 1fr) max-content; gap: 10px 16px; align-items: center; }
.slots b { font-weight: 600; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 0 40px; }
.pair > * { min-width: 0; }
.sum { font-size: 17px; margin-bottom: 8px; }

.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th { text-align: left; font-size: 12.5px; font-weight: 500; color: var(--dim); vertical-align: bottom; }
th, td { padding: 6px 10px; border-bottom: 1px solid var(--line); }
td { vertical-align: top; overflow-wrap: anywhere; }
th:first-child, td:first-child { padding-left: 0; }
th:last-child, td:last-child { padding-right: 0; }
.n { text-align: right; white-space: nowrap; }
td .bar.thin { margin-top: 4px; }
.facts td { width: 70%; }
.facts th { font-size: 14px; vertical-align: top; }

.pool { border-top: 1px solid var(--line); padding: 16px 0 22px; --cell: 16px; }
.pool header { display: flex; justify-content: space-between; align-items: flex-end; gap: 24px; margin-bottom: 12px; }
.histogram { display: flex; align-items: flex-end; gap: 3px; text-align: center; color: var(--dim); font-size: 11px; }
.histogram li { min-width: 24px; line-height: 1.3; }
.histogram i { display: block; border-radius: 2px 2px 0 0; min-height: 2px; }
.histogram i + i { border-radius: 0; margin-top: 1px; }
.histogram b { display: block; font-weight: 400; border-top: 1px solid var(--line); }
.histogram .unit { padding-left: 6px; text-align: left; max-width: 6em; }
.map {
  display: grid; gap: 4px 28px;
  --row: calc(var(--name) * 7.4px + var(--times, 1) * var(--gpus) * (var(--cell) + 2px) + var(--says) + 20px);
  grid-template-columns: repeat(auto-fill, minmax(min(100%, var(--row)), 1fr));
}
.map > li { display: flex; align-items: center; gap: 10px; min-width: 0; break-inside: avoid; font-size: 12.5px; }
.map .name { flex: 0 1 calc(var(--name) * 7.4px); min-width: 0; overflow: hidden; white-space: nowrap; font-size: 12px; }
.map .says b { color: var(--free); font-weight: 600; }
.map .says { flex: none; white-space: nowrap; }
.gpus { flex: none; display: flex; flex-wrap: wrap; gap: 2px; width: calc(var(--gpus) * (var(--cell) + 2px)); }
.gpus b { display: flex; border-radius: 3px; overflow: hidden; background: var(--one); color: var(--on-light); }
.gpus i { flex: none; width: var(--cell); height: var(--cell); font: 600 10px/16px system-ui, sans-serif; text-align: center; }
.gpus > i { border-radius: 3px; }
.gpus b i + i { width: calc(var(--cell) + 2px); }
.gpus .p2 { background: var(--two); }
.gpus .p4 { background: var(--four); color: var(--on-dark); }
.gpus .p8 { background: var(--eight); color: var(--on-dark); }
.gpus .moves { box-shadow: inset 0 0 0 2px var(--ink), inset 0 0 0 3px var(--paper); }
.gpus .f { border: 1.5px solid var(--free); }
.gpus .s { border: 1.5px dashed var(--lost); }
.key + .pool { margin-top: 16px; }
.key .gpus { width: auto; --cell: 16px; }

details { margin-top: 10px; }
summary { cursor: pointer; color: var(--dim); font-size: 13.5px; }
summary:hover { color: var(--ink); }
details > :not(summary) { margin-top: 8px; }
div + .pods { margin-top: 20px; }
.pods > li { border-top: 1px solid var(--line); padding: 10px 0; }
.pods p { max-width: 60em; }
.why { display: flex; flex-wrap: wrap; gap: 2px 18px; font-size: 13.5px; color: var(--dim); }
.why b { color: var(--ink); font-weight: 600; }
.notes li { padding-left: 18px; text-indent: -18px; margin-bottom: 6px; max-width: 56em; overflow-wrap: anywhere; }
.notes li::before { content: "–"; display: inline-block; width: 18px; text-indent: 0; color: var(--dim); }
.names li { display: inline-block; margin: 0 20px 4px 0; }
.words { display: grid; grid-template-columns: max-content 1fr; gap: 6px 20px; font-size: 14px; }
.words dt { font-weight: 600; }
.words dd { color: var(--dim); max-width: 56em; }
footer { margin-top: 56px; padding-top: 14px; border-top: 1px solid var(--line); color: var(--dim); font-size: 13px; }

@media screen and (max-width: 900px) {
  .tiles { grid-template-columns: repeat(2, 1fr); }
  .pair, .slots, .words { grid-template-columns: minmax(0, 1fr); }
  .pool header { flex-direction: column; align-items: flex-start; }
}
@media print {
  @page { margin: 12mm; }
  html { zoom: 0.68; }
  main { max-width: none; padding: 0; }
  .wide { overflow: visible; }
  h2 { margin-top: 28px; }
  h2, h3, .about, .pool header { break-after: avoid; }
  .tile, tr, .pods > li, .slots, .hero, .pool header { break-inside: avoid; }
}
"""
