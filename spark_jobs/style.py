"""The looks of the report: one sheet, in light and dark, without a font or an address."""

STYLE = """
:root{color-scheme:light dark;--ink:#1c2430;--soft:#5b6675;--line:#d9dee5;--paper:#fff;
--bad:#b3261e;--accent:#0b62c4;--warn:#fff4d6;--fine:#e3f4ea}
@media (prefers-color-scheme:dark){:root{--ink:#e6eaf0;--soft:#9aa6b5;--line:#343d49;--paper:#12161c;
--bad:#ff8a80;--accent:#6fb1ff;--warn:#3b3115;--fine:#16301f}}
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,sans-serif}main{max-width:1320px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:25px;line-height:1.3;margin:0 0 6px}h2{font-size:19px;margin:38px 0 8px}
h3{font-size:16px;margin:22px 0 4px}p{margin:6px 0}.soft{color:var(--soft)}
.note{background:var(--warn);border-radius:6px;padding:10px 14px;margin:14px 0}
.note.fine{background:var(--fine)}
.note ul{margin:4px 0;padding-left:20px}.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:14px}table.wide{font-size:13px}
th,td{padding:5px 8px;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th{color:var(--soft);font-weight:600;white-space:normal;vertical-align:bottom;line-height:1.25}
td.long{white-space:normal;min-width:220px}th:first-child,td:first-child,td.l,th.l{text-align:left}
td.bad{color:var(--bad);font-weight:600}tr.soft td{color:var(--soft)}
svg{display:block;width:100%;height:auto}@media(max-width:700px){.scroll>svg{min-width:640px}}
.grid{stroke:var(--line)}.tick{fill:var(--soft);font-size:11px}
.label{fill:var(--ink);font-size:12px}.mark{stroke:var(--soft);stroke-dasharray:2 3}
.line{fill:none;stroke:currentColor;stroke-width:1.8}
.limit{stroke:var(--bad);stroke-width:1.6;stroke-dasharray:6 4;fill:none}
.area{fill:currentColor;stroke:currentColor;stroke-width:.6;fill-opacity:.75}
.sum{stroke:var(--accent)}.top{stroke:var(--accent);opacity:.35}.bar{fill:var(--accent)}
.bar.late{fill:var(--bad)}.bar.soft{fill:var(--soft)}
.c0{color:#0072b2}.c1{color:#e69f00}.c2{color:#009e73}.c3{color:#cc79a7}.c4{color:#56b4e9}
.c5{color:#d55e00}.c6{color:#8c8c00}.c7{color:#8a8f98}
.h0{fill:#1f9d63}.h1{fill:#8fce8a}.h2{fill:#f2d16b}.h3{fill:#ec9a4c}.h4{fill:#c8402f}.over{fill:#6a5acd}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:4px 18px;margin:2px 0 10px;padding:0;
font-size:13px;color:var(--soft)}.legend li{display:flex;align-items:center;gap:6px}
.legend svg{width:22px;height:8px}.key{width:12px;height:12px;border-radius:2px;display:inline-block}
.beside{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:0 20px}
dt{font-weight:600;margin-top:8px}dd{margin:0;color:var(--soft)}
"""
