// Filters and search over the table and the picture. Without script the whole table is there, only the form is not.
(() => {
  const form = document.getElementById("filters");
  if (!form) return;
  const rows = [...document.querySelectorAll("tr.entry")];
  const points = [...document.querySelectorAll(".point")];
  const [search, paper, kind, verdict, shown, nothing] =
    ["search", "paper", "kind", "verdict", "shown", "nothing"].map(id => document.getElementById(id));

  const matches = row =>
    [["paper", paper], ["kind", kind], ["verdict", verdict]].every(([key, choice]) => !choice.value || row.dataset[key] === choice.value) &&
    search.value.toLowerCase().split(/\s+/).every(word => row.dataset.search.includes(word));

  const apply = () => {
    const visible = new Set();
    rows.forEach(row => {
      row.hidden = !matches(row);
      if (!row.hidden) visible.add(row.id);
    });
    points.forEach(point => point.toggleAttribute("hidden", !visible.has("entry-" + point.dataset.entry)));
    shown.textContent = visible.size === rows.length ? `${rows.length} shown` : `${visible.size} of ${rows.length} shown`;
    nothing.hidden = visible.size > 0;
  };

  // A count leads to the lines that it counts.
  document.querySelectorAll("a[data-verdict]").forEach(count => count.addEventListener("click", () => {
    form.reset();
    [paper.value, kind.value, verdict.value] = [count.dataset.paper, count.dataset.kind, count.dataset.verdict];
    apply();
  }));

  form.hidden = false;
  form.addEventListener("input", apply);
  form.addEventListener("submit", event => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(apply));  // the event comes before the fields are empty
  // A link from a page to a verdict must not land on a row that a filter hides, and shows its numbers unfolded.
  const arrive = () => {
    const target = document.querySelector(":target");
    if (target?.hidden) form.reset();
    target?.querySelectorAll("tr.entry details").forEach(fold => { fold.open = true; });
  };
  addEventListener("hashchange", arrive);
  apply();  // a reloaded page keeps what was typed
  arrive();
})();
