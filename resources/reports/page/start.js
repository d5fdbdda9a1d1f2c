// Puts timelines in the place of their pictures, makes findings fly to their evidence, and tables sort.

async function start() {
  document.documentElement.classList.add("scripted");
  for (const table of document.querySelectorAll("table.rows")) enliven(table);
  const camera = new Camera(), timelines = [];
  for (const section of document.querySelectorAll("section.timeline")) {
    const data = section.querySelector("script.recording");
    try {
      const recording = recordingOf(await unpacked(data.textContent.trim()));
      timelines.push(new Timeline(section, recording, camera));
      section.querySelector("figure")?.classList.add("replaced");
      data.remove();
    } catch (problem) {
      section.append(make("p", "quiet", "This browser cannot show the interactive timeline."));
      console.error(problem);
    }
  }
  if (timelines.length) {
    tools(timelines, camera);
    places(timelines[0]);
    timelines[0].start();
    camera.redraw();
  }
  requestAnimationFrame(() => requestAnimationFrame(() => { document.documentElement.dataset.drawn = Math.round(performance.now()); }));
  globalThis.stallscope = { timelines, camera, longestOf };
}

function tools(timelines, camera) {
  const bar = make("div", "tools"), [first] = timelines;
  const button = (text, tip, act) => {
    const found = make("button", "", text);
    Object.assign(found, { type: "button", title: tip });
    found.addEventListener("click", act);
    bar.append(found);
  };
  const middle = () => camera.width / 2, all = () => camera.fly(camera.low, camera.high, 0.98);
  button("\u2212", "Zoom out (S)", () => camera.zoom(1.6, middle()));
  button("+", "Zoom in (W)", () => camera.zoom(1 / 1.6, middle()));
  button("Show all", "The whole recording (0)", all);
  button("First view", "What the page showed first", () => {
    const [low, high] = first.recording.header.view;
    camera.fly(0, high - low, 0.94);
  });
  const search = make("input", ""), said = make("span", "quiet");
  Object.assign(search, { type: "search", placeholder: "Find an event by name" });
  search.setAttribute("aria-label", "Find an event by name");
  search.addEventListener("keydown", event => {
    if (event.key !== "Enter" || !search.value.trim()) return;
    said.textContent = timelines.some(each => each.find(search.value.trim())) ? "" : "No event has such a name.";
  });
  bar.append(search, said, make("span", "quiet help", `Drag to move, Shift+drag to measure, ${/Mac/.test(navigator.platform) ? "Cmd" : "Ctrl"}+wheel to zoom; after a click the wheel alone, W S A D and 0`));
  first.section.prepend(bar);
  const keys = {
    w: () => camera.zoom(1 / 1.35, middle()), s: () => camera.zoom(1.35, middle()),
    a: () => camera.pan(-camera.width * 0.2), d: () => camera.pan(camera.width * 0.2), 0: all,
    Escape: () => { for (const each of timelines) { each.choose(-1); each.lanes.blur(); } },
  };
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
    const act = keys[event.key] ?? keys[event.key.toLowerCase()];
    if (act) { event.preventDefault(); act(); }
  });
}

// Each place of a finding becomes a button that shows it on the timeline.
function places(timeline) {
  for (const place of document.querySelectorAll("span.place")) {
    const { lane, start, end } = place.dataset, button = make("button", "place", place.textContent);
    Object.assign(button, { type: "button", title: "Show it on the timeline" });
    button.addEventListener("click", () => {
      timeline.choose(-1);
      timeline.flyTo(Number(start), Number(end), Number(lane));
      const back = make("button", "back", "Back to the finding");
      back.type = "button";
      back.addEventListener("click", () => {
        timeline.details.replaceChildren();
        button.focus({ preventScroll: true });
        button.scrollIntoView({ block: "center", behavior: timeline.camera.calm.matches ? "auto" : "smooth" });
      });
      const title = button.closest("article")?.querySelector("h2")?.textContent ?? "";
      timeline.details.replaceChildren(make("strong", "", title), make("div", "", button.textContent), back);
      timeline.section.scrollIntoView({ block: "start", behavior: timeline.camera.calm.matches ? "auto" : "smooth" });
      timeline.lanes.focus({ preventScroll: true });
    });
    place.replaceWith(button);
  }
}

start();
