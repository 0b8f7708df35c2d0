// Runs the script of a flame graph's page, read from standard input, with as much of
// a browser as it needs, uses the page as a person would and prints what it shows.
"use strict";
const html = require("fs").readFileSync(0, "utf8");
const script = html.match(/<script>([\s\S]*)<\/script>/)[1];

class Element {
  constructor() { this.style = {}; this.kids = []; this.text = ""; this.className = ""; }
  get clientWidth() { return 1000; }
  get textContent() { return this.text; }
  set textContent(t) { this.text = t; this.kids = []; }
  append(kid) { this.kids.push(kid); }
}
const known = {};
const document = {
  getElementById: id => known[id] ??= new Element(),
  createElement: () => new Element(),
};
const window = {};
new Function("document", "window", script)(document, window);

const graph = document.getElementById("graph"), shown = {};
const frames = () => graph.kids.map(d => {
  const [, left, top, width] = d.style.cssText.match(/left:([\d.]+)px;top:(\d+)px;width:([\d.]+)px/);
  return { name: d.title, left: Math.round(left), row: top / 17, width: Math.round(width), found: d.className === "found" };
});
const frame = name => graph.kids.find(d => d.title === name);

shown.all = frames();
frame("weir/internal/plan.(*Run).Access").onmouseenter();
shown.note = document.getElementById("note").textContent;
frame("weir/internal/plan.(*Run).Access").onclick();
shown.zoomed = frames();
frame("all").onclick();
shown.back = frames();
frame("weir/internal/plan.(*Run).Access").onclick();
document.getElementById("out").onclick();
shown.out = frames();
document.getElementById("search").oninput({ target: { value: "LIMIT-c" } });
shown.search = frames();
shown.hits = document.getElementById("hits").textContent;
document.getElementById("search").oninput({ target: { value: "(" } });
shown.nonsense = document.getElementById("hits").textContent;
document.getElementById("merge").onchange({ target: { checked: true } });
shown.merged = frames();
frame("limit-count").onclick();
shown.plugin = frames();
document.getElementById("merge").onchange({ target: { checked: false } });
window.onresize();
shown.again = frames();
console.log(JSON.stringify(shown));
