//! The style of pages. One literal: the server's Content-Security-Policy names its digest, and no
//! page has a `style` attribute.

/// The content of each page's `style` element.
pub const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b2027;--dim:#5b6572;--paper:#fbfbfa;--card:#fff;\
--line:#d5d9de;--link:#0b57a4;--good:#1a7f45;--warn:#8f5a00;--bad:#b3261e;--tint:#eef1f4}\
@media(prefers-color-scheme:dark){:root{--ink:#e6e8eb;--dim:#a0a9b4;--paper:#14171b;\
--card:#1d2127;--line:#363d46;--link:#7db7ff;--good:#63cf8f;--warn:#f0b755;--bad:#ff8a80;\
--tint:#242a31}}\
*{box-sizing:border-box}\
body{margin:0 auto;max-width:80rem;padding:0 1rem 2rem;background:var(--paper);\
color:var(--ink);font:1rem/1.45 system-ui,sans-serif;overflow-wrap:anywhere}\
a{color:var(--link)}\
:focus-visible{outline:3px solid var(--link);outline-offset:2px}\
.skip{position:absolute;left:-99rem}.skip:focus{left:1rem;top:.3rem;background:var(--card);\
padding:.4rem}\
header{padding:.7rem 0;border-bottom:1px solid var(--line);font-weight:600}\
footer{margin-top:2.5rem;padding-top:.7rem;border-top:1px solid var(--line);color:var(--dim);\
font-size:.875rem}\
h1{font-size:1.5rem;margin:1rem 0 .6rem}h2{font-size:1.15rem;margin:2rem 0 .6rem}\
h3{font-size:1rem;margin:1rem 0 .4rem}p{margin:.4rem 0}\
.dim{color:var(--dim)}.goodink{color:var(--good)}.warnink{color:var(--warn)}\
.badink{color:var(--bad)}\
.state{border-left:.35rem solid var(--dim);background:var(--card);padding:.6rem .9rem;\
border-radius:.25rem}\
.good{border-left-color:var(--good)}.warn{border-left-color:var(--warn)}\
.bad{border-left-color:var(--bad)}\
dl.facts{display:flex;flex-wrap:wrap;gap:.3rem 1.6rem;margin:.6rem 0}\
dl.facts>div{min-width:0}\
dt{color:var(--dim);font-size:.8125rem}dd{margin:0;font-variant-numeric:tabular-nums}\
ul.plain{list-style:none;margin:0;padding:0}\
ul.plain>li{margin:.5rem 0}\
.remedy{margin-top:.3rem;font-weight:600}\
.path{display:flex;align-items:stretch;gap:.4rem;list-style:none;margin:0;padding:0}\
.path>li{min-width:0}\
.hops{flex:1 1 0;display:flex;flex-direction:column;gap:.5rem}\
.hop{flex:1;background:var(--card);border:1px solid var(--line);border-top:.25rem solid \
var(--good);border-radius:.35rem;padding:.5rem .7rem}\
.hop.bad{border-top-color:var(--bad)}.hop.warn{border-top-color:var(--warn)}\
.hop.unknown{border-top-color:var(--dim)}\
.hop h4{margin:0;font-size:.9375rem}.hop h4 span{display:block;color:var(--dim);\
font-size:.75rem;font-weight:400;text-transform:uppercase;letter-spacing:.05em}\
.hop dl{margin:.4rem 0 0;display:grid;grid-template-columns:minmax(min-content,auto) 1fr;\
gap:.1rem .6rem}\
.hop dl>div{display:contents}.hop dd{text-align:right}\
.flow{flex:0 0 5.2rem;display:flex;flex-direction:column;align-items:center;\
justify-content:center;font-variant-numeric:tabular-nums;font-size:.875rem;text-align:center}\
.flow svg{width:100%;height:1.2rem}.flow line,.flow path{stroke:var(--link);\
fill:none;stroke-linecap:round}\
.lag{display:block;width:100%;height:.6rem;margin-top:.4rem;border-radius:.3rem;fill:var(--good)}\
.lag.warn{fill:var(--warn)}.lag.bad{fill:var(--bad)}.lag .track{fill:var(--tint)}\
.lag~p{font-size:.875rem;font-weight:600}.lag~p.dim{font-weight:400}\
dd.badink,dd.warnink{font-weight:700}\
.deep{display:inline-block;margin:.3rem 1rem 0 0}.state>.deep{margin:0 0 0 1rem}\
.tree,.tree ul{list-style:none;margin:0;padding:0}\
.tree ul{padding-left:1rem;border-left:1px solid var(--line)}.tree li{padding:.15rem 0}\
.sparks{display:grid;grid-template-columns:repeat(auto-fit,minmax(15rem,1fr));gap:.5rem}\
.sparks .figure{margin:0}.sparks svg{height:3.5rem}\
summary{cursor:pointer;padding:.15rem 0}details>.plain{margin-top:.2rem}\
.wide{overflow-x:auto;max-width:100%}\
table{border-collapse:collapse;width:100%;font-size:.9375rem}\
th,td{text-align:left;vertical-align:top;padding:.3rem 1rem .3rem 0;\
border-bottom:1px solid var(--line);overflow-wrap:normal}\
th{font-size:.8125rem;color:var(--dim);font-weight:600;white-space:nowrap}\
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}\
pre{background:var(--tint);padding:.6rem .8rem;border-radius:.3rem;overflow-x:auto;\
font-size:.875rem;margin:.3rem 0}\
form{display:flex;flex-wrap:wrap;gap:.6rem;align-items:end;margin:.8rem 0}\
label{display:flex;flex-direction:column;font-size:.8125rem;color:var(--dim);flex:1 1 9rem}\
input,select,button{font:inherit;font-size:1rem;color:inherit;background:var(--card);\
border:1px solid var(--dim);border-radius:.3rem;padding:.35rem .6rem;min-width:0;\
height:2.25rem;box-sizing:border-box}\
.rows>li{display:grid;grid-template-columns:minmax(12rem,2fr) 3fr minmax(9rem,1fr);\
gap:.3rem 1rem;padding:.7rem .9rem}\
.figure{background:var(--card);border:1px solid var(--line);border-radius:.35rem;\
padding:.5rem .8rem;margin:.5rem 0}\
.figure svg{width:100%;height:5rem;display:block}\
.figure polyline{fill:none;stroke-width:2;vector-effect:non-scaling-stroke}\
.one{stroke:var(--link)}.two{stroke:var(--warn);stroke-dasharray:5 4}\
.key.one{border-top:3px solid var(--link)}.key.two{border-top:3px dashed var(--warn)}\
.key{display:inline-block;width:1.6rem;vertical-align:middle;margin-right:.3rem}\
.ends{display:flex;justify-content:space-between;color:var(--dim);font-size:.8125rem}\
nav.pages{display:flex;gap:1.5rem;margin:1rem 0}\
@media(max-width:48rem){.path{flex-direction:column}.flow{flex:none;flex-direction:row;\
gap:.8rem;height:2.4rem}.flow svg{width:2.4rem;transform:rotate(90deg)}\
.rows>li{grid-template-columns:1fr}th,td{padding-right:.7rem}}";
