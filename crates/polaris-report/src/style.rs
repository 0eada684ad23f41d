//! The style sheet of every page.

/// Colours begin with those of Okabe and Ito, which people with any kind of colour vision tell
/// apart. Some are darker or lighter so that each stands out from the background by 3 to 1, chosen
/// such that all pairs keep their distance for eyes that lack one kind of cone. What a colour says
/// is also said by a dash pattern, a number or a hover title.
///
/// The shade of a square in a matrix is kept far enough from the colour of text in both schemes
/// that its number can be read at full strength (`--heat`); squares without numbers need not be
/// (`--deep`).
pub(crate) const STYLE: &str = "
:root{color-scheme:light dark;--bg:#fff;--ink:#1b1f24;--dim:#59626c;--line:#d8dde3;--box:#f4f6f8;
--heat:#2e8fc8;--deep:#0068a6;--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#c0579a;--c4:#6b5200;--c5:#222}
@media (prefers-color-scheme:dark){:root{--bg:#14171b;--ink:#e6e9ec;--dim:#9da7b1;--line:#333a42;
--box:#1d2227;--heat:#0a6199;--deep:#6cc3f5;--c0:#4aa8e0;--c1:#e8752a;--c2:#12a77c;--c3:#eaa6d3;--c4:#f0e442;
--c5:#f2f2f2}}
@media print{:root{color-scheme:light;--bg:#fff;--ink:#000;--dim:#444;--line:#ccc;--box:#fff;
--heat:#2e8fc8;--deep:#0068a6;--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#c0579a;--c4:#6b5200;--c5:#222}}
body{margin:0;background:var(--bg);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:820px;margin:0 auto;padding:24px 20px 48px;overflow-wrap:break-word}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 .4em}
h2{font-size:1.2rem;margin:2em 0 .6em;padding-bottom:.2em;border-bottom:1px solid var(--line)}
.lead{font-size:1.05rem;color:var(--dim);margin:.4em 0}
p{margin:.6em 0}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15em 1.2em;margin:1em 0}
dt{color:var(--dim);max-width:16em}dd{margin:0;min-width:0}
figure{margin:1.4em 0;overflow-x:auto}
figcaption,caption{font-weight:600;text-align:left;margin-bottom:.4em}
.scroll{overflow-x:auto;margin:1em 0;width:max-content;max-width:calc(100% + max(0px,50vw - 430px))}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.28em .9em .28em 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
th{font-weight:600;color:var(--dim);vertical-align:bottom}
.num{text-align:right}
pre{background:var(--box);border:1px solid var(--line);border-radius:6px;padding:.8em 1em;
overflow-x:auto;font:13px/1.45 ui-monospace,monospace}
.plot{display:block;max-width:max(100%,600px);height:auto}
.plot text{font:12px system-ui,sans-serif;fill:var(--ink);font-variant-numeric:tabular-nums}
.plot .small{font-size:11px}.plot .name{fill:var(--dim)}.plot .faint{fill:var(--dim);opacity:.55}
.mid{text-anchor:middle}.end{text-anchor:end}
.grid{stroke:var(--line)}.axis{stroke:var(--dim)}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.2em 1.4em;margin:.4em 0 0;padding:0;
font-size:.9rem}
.legend li{min-width:0}
.key{vertical-align:middle;margin-right:.5em}
.note{color:var(--dim);font-size:.9rem}
.s0{--s:var(--c0)}.s1{--s:var(--c1)}.s2{--s:var(--c2)}.s3{--s:var(--c3)}.s4{--s:var(--c4)}
.s5{--s:var(--c5)}
.line{fill:none;stroke:var(--s);stroke-width:1.8;stroke-linejoin:round}
.line.d1{stroke-dasharray:8 4}.line.d2{stroke-dasharray:2 3}.line.d3{stroke-dasharray:10 3 2 3}
.line.d4{stroke-dasharray:5 2}.line.d5{stroke-dasharray:14 4 2 4 2 4}.line.d6{stroke-dasharray:1 5}
.limit{--s:var(--dim);stroke-dasharray:6 3}
.dots{stroke:var(--s);stroke-width:6;stroke-linecap:round}
.hover circle{fill:var(--s);opacity:0}.hover circle:hover{opacity:.8}
.mark path{stroke:var(--dim);stroke-dasharray:3 3}.plot .mark text{fill:var(--dim)}
.bar{fill:var(--s)}
.block{stroke:var(--bg);stroke-width:.9}
.stripes{stroke:var(--bg);opacity:.4}.stripes.d0{display:none}.stripes.d1{stroke-dasharray:2 6}
.stripes.d2{stroke-dasharray:4 3}.stripes.d3{stroke-dasharray:2 2 2 9}.stripes.d4{stroke-dasharray:1 2}
.stripes.d5{stroke-dasharray:8 8}.stripes.d6{stroke-dasharray:1 5}
.cell{fill:var(--heat);stroke:var(--line)}.cell.right{stroke:var(--dim)}
.field{fill:var(--box);stroke:var(--line)}
.h0,.h1,.h2,.h3,.h4,.h5,.h6,.h7,.h8,.h9{fill:var(--deep)}
.h0{opacity:.2}.h1{opacity:.28}.h2{opacity:.36}.h3{opacity:.45}.h4{opacity:.54}.h5{opacity:.63}
.h6{opacity:.72}.h7{opacity:.81}.h8{opacity:.9}
rect:hover,g:hover>.bar,g:hover>.cell{stroke:var(--ink)}

.plot .on-dark{fill:#fff}.plot .on-light{fill:#000}
g:hover>.block{stroke-width:2}
@media print{body{font-size:11pt}main{max-width:none;padding:0}figure,tr,pre{break-inside:avoid}
h2{break-after:avoid}pre{white-space:pre-wrap}.scroll,figure{overflow:visible}.scroll{width:auto;max-width:none}.plot{max-width:100%}}
";
