// Tables that sort by a click on a heading, that a word filters, and of which the first rows are shown.

function enliven(table) {
  const body = table.tBodies[0], rows = [...body.rows], few = Number(table.dataset.few) || rows.length;
  const headings = table.tHead ? [...table.tHead.rows[0].cells] : [];
  const state = { column: -1, up: false, words: "", all: false };
  const more = make("button", "more");
  more.type = "button";

  const show = () => {
    const { column, up, words } = state;
    const kept = rows.filter(row => !words || row.textContent.toLowerCase().includes(words));
    if (column >= 0) {
      const key = row => {
        const cell = row.cells[column], value = cell.dataset.value;
        return value === undefined ? cell.textContent.toLowerCase() : value === "" ? null : Number(value);
      };
      const keys = new Map(kept.map(row => [row, key(row)])), sign = up ? 1 : -1;
      kept.sort((one, other) => {
        const [a, b] = [keys.get(one), keys.get(other)];
        if (a === null || b === null) return (a === null) - (b === null);
        return a < b ? -sign : a > b ? sign : 0;
      });
    }
    const shown = state.all || words ? kept : kept.slice(0, few);
    body.replaceChildren(...shown);
    more.hidden = kept.length <= few || !!words;
    more.textContent = state.all ? `Show the first ${few} only` : `Show all ${kept.length.toLocaleString("en-US")} rows`;
  };

  headings.forEach((heading, column) => {
    if (!heading.textContent && !rows.some(row => row.cells[column]?.textContent)) return;
    const isNumber = heading.classList.contains("number");
    if (isNumber && !rows.some(row => row.cells[column]?.dataset.value)) return;
    const button = make("button", "sort", heading.textContent || "name");
    button.type = "button";
    heading.replaceChildren(button);
    button.addEventListener("click", () => {
      state.up = state.column === column ? !state.up : !isNumber;
      state.column = column;
      headings.forEach(each => each.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", state.up ? "ascending" : "descending");
      show();
    });
  });
  if (rows.length > 8) {
    const filter = make("input", "filter");
    Object.assign(filter, { type: "search", placeholder: "Filter rows" });
    filter.setAttribute("aria-label", "Filter the rows of this table");
    filter.addEventListener("input", () => { state.words = filter.value.trim().toLowerCase(); show(); });
    table.before(filter);
  }
  more.addEventListener("click", () => { state.all = !state.all; show(); });
  table.after(more);
  show();
}
