// One recording as lanes: drawing, mouse, keys, and what is told of the thing under the mouse. Names are only ever text.

const RULER = 24, NAMES = 168, LETTER = 6.3, GAP_SHOWN = 3;

const make = (tag, name, text = "") => {
  const found = document.createElement(tag);
  if (name) found.className = name;
  found.textContent = text;
  return found;
};

class Timeline {
  constructor(section, recording, camera) {
    Object.assign(this, { section, recording, camera, hover: null, chosen: -1, flash: null, drag: null });
    const { header } = recording;
    this.anchor = header.view[0];
    this.origin = header.span[0];
    camera.bound(header.span[0] - this.anchor, header.span[1] - this.anchor);
    this.build();
    this.arrange();
    this.recolor();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolor());
    new ResizeObserver(() => this.resize()).observe(this.lanes);
    camera.drawers.push(() => this.draw());
  }

  get t0() { return this.anchor + this.camera.offset; }
  x(time) { return this.names + (time - this.t0) / this.camera.scale; }
  time(x) { return this.t0 + (x - this.names) * this.camera.scale; }

  build() {
    this.overview = make("canvas", "overview");
    this.overview.setAttribute("role", "img");
    this.overview.setAttribute("aria-label", "Overview of the whole recording: drag to move");
    this.lanes = make("div", "lanes");
    Object.assign(this.lanes, { tabIndex: 0 });
    this.lanes.setAttribute("role", "group");
    this.lanes.setAttribute("aria-label", "Timeline. W and S zoom, A and D move, 0 shows everything, Escape lets go.");
    this.canvas = make("canvas", "");
    this.spacer = make("div", "spacer");
    this.card = make("div", "card");
    this.card.hidden = true;
    this.details = make("div", "details");
    this.details.setAttribute("aria-live", "polite");
    this.lanes.append(this.canvas, this.spacer);
    this.section.append(this.overview, this.lanes, this.details, this.card);
    this.context = this.canvas.getContext("2d");
    this.buffer = document.createElement("canvas");
    this.listen();
  }

  recolor() {
    const style = getComputedStyle(document.documentElement);
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    this.ink = Object.fromEntries(["ground", "panel", "ink", "quiet", "line", "accent"].map(
      name => [name, style.getPropertyValue("--" + name).trim()]));
    const { palettes, causes, period } = this.recording.header;
    this.dark = dark;
    this.shades = palettes.map(pair => shadesOf(pair[dark ? 1 : 0]));
    this.inks = palettes.map(pair => pair[dark ? 1 : 0].map(inkOn));
    this.causes = causes.map(cause => cause[dark ? "dark" : "light"]);
    this.gapShades = shadesOf(this.causes);
    this.hatches = causes.map((cause, at) => this.hatch(cause.tile, period, this.causes[at]));
    this.camera.redraw();
  }

  hatch(tile, period, color) {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = period;
    const context = canvas.getContext("2d"), image = context.createImageData(period, period), parts = rgb(color);
    for (let i = 0; i < period * period; i++)
      image.data.set([...parts, tile[i >> 3] & (128 >> (i & 7)) ? 150 : 52], i * 4);
    context.putImageData(image, 0, 0);
    return this.context.createPattern(canvas, "repeat");
  }

  arrange() {
    Object.assign(this, layOut(this.recording.header.groups));
    this.spacer.style.height = this.height + RULER + "px";
    this.resize();
  }

  resize() {
    const width = this.lanes.clientWidth, most = Math.max(innerHeight * 0.7, 260);
    const height = Math.min(this.height + RULER + 2, most);
    this.lanes.style.height = height + "px";
    this.ratio = Math.min(devicePixelRatio || 1, 2);
    this.names = Math.min(NAMES, Math.round(width * 0.28));
    for (const [canvas, w, h] of [[this.canvas, width, height - 2], [this.overview, width, 34]]) {
      canvas.width = Math.round(w * this.ratio);
      canvas.height = Math.round(h * this.ratio);
      canvas.style.width = w + "px";
      canvas.style.height = h + "px";
    }
    this.width = width;
    const pixels = Math.max(width - this.names, 50), middle = this.camera.offset + this.camera.width * this.camera.scale;
    if (pixels !== this.camera.width) {
      const shown = this.camera.width * this.camera.scale;
      this.camera.width = pixels;
      if (this.started) this.camera.set(middle - shown, shown / pixels);
    }
    this.camera.redraw();
  }

  // What is seen first.
  start() {
    this.started = true;
    const [low, high] = this.recording.header.view;
    const length = Math.max(high - low, 1);
    this.camera.place(-length * 0.03, length * 1.06 / this.camera.width);
  }

  draw() {
    const { context, ratio, width, ink } = this, scroll = this.lanes.scrollTop;
    const bottom = this.canvas.height / ratio;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = ink.ground;
    context.fillRect(0, 0, width, bottom);
    const shown = this.items.filter(item => item.top + item.height > scroll && item.top < scroll + bottom - RULER);
    this.drawGrid(bottom);
    context.save();
    context.beginPath();
    context.rect(0, RULER, width, bottom - RULER);
    context.clip();
    for (const item of shown) this.drawGround(item, RULER + item.top - scroll);
    const labels = this.drawRows(shown, scroll);
    for (const label of labels) this.drawLabel(...label);
    for (const item of shown) if (item.track?.samples) this.drawCounter(item, RULER + item.top - scroll);
    this.drawMarks(scroll, bottom);
    for (const item of shown) this.drawName(item, RULER + item.top - scroll);
    context.restore();
    this.drawOverview();
  }

  drawGrid(bottom) {
    const { context, ink, width } = this, scale = this.camera.scale;
    const { every, found } = ticks(this.t0 - this.origin, this.time(width) - this.origin, 96 * scale);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "left";
    for (const at of found) {
      const x = Math.round(this.x(at + this.origin)) + 0.5;
      if (x < this.names) continue;
      context.fillStyle = ink.line;
      context.fillRect(x, 0, 1, bottom);
      context.fillStyle = ink.quiet;
      const text = tickText(at, every);
      if (x + 4 + context.measureText(text).width <= width) context.fillText(text, x + 4, RULER / 2);
    }
  }

  drawGround(item, y) {
    const { context, ink, width } = this;
    if (item.group && !item.track) {
      context.fillStyle = ink.panel;
      context.fillRect(0, y, width, item.height);
    }
    context.fillStyle = ink.line;
    context.fillRect(0, y + item.height - 1, width, 1);
  }

  // Gaps first, hatched, then all rows by way of one line of pixels each.
  drawRows(shown, scroll) {
    const { context, ratio, recording, camera } = this;
    const view = { t0: this.t0, scale: camera.scale / ratio };
    const width = Math.max(Math.round((this.width - this.names) * ratio), 1);
    const lines = [], labels = [];
    for (const item of shown) {
      const top = RULER + item.top - scroll;
      const gaps = item.track?.gaps >= 0 ? [[gapsOf(item.group, item.track.gaps), 0, item.height - 1, true]]
        : item.track ? [] : item.levels.map(level => [level.gaps, level.top, level.height, false]);
      for (const [gap, at, height, foot] of gaps)
        if (gap >= 0) lines.push({ row: recording.rows[gap], shades: this.gapShades, y: foot ? top + height - 3 : top + at, height: foot ? 3 : height, hatch: [top + at, height] });
      for (const level of item.levels)
        lines.push({ row: recording.rows[level.row], shades: this.shades[level.palette], inks: this.inks[level.palette], y: top + level.top, height: level.height });
    }
    if (!lines.length) return labels;
    if (this.buffer.width !== width || this.buffer.height < lines.length) {
      this.buffer.width = width;
      this.buffer.height = lines.length + 16;
    }
    const image = new ImageData(width, lines.length), pixels = new Uint32Array(image.data.buffer);
    lines.forEach((line, at) => {
      const out = pixels.subarray(at * width, (at + 1) * width);
      const named = paintRow(recording, line.row, view, width, line.shades, out, (line.hatch ? GAP_SHOWN : LABELLED) * ratio);
      for (const entry of named) {
        const [left, right] = this.edges(entry);
        if (line.hatch) this.drawHatch(entry, left, right, ...line.hatch);
        if (right - left >= LABELLED && (line.hatch ? line.hatch[1] : line.height) >= 11)
          labels.push([entry, left, right, ...(line.hatch ?? [line.y, line.height]), line.inks]);
      }
    });
    const buffer = this.buffer.getContext("2d");
    buffer.putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    lines.forEach((line, at) => context.drawImage(this.buffer, 0, at, width, 1, this.names, line.y, this.width - this.names, line.height));
    return labels;
  }

  edges(entry) {
    const { start, end } = this.recording;
    return [Math.max(this.x(start[entry]), this.names), Math.min(this.x(end[entry]), this.width)];
  }

  drawHatch(entry, left, right, y, height) {
    const { context } = this;
    context.fillStyle = this.hatches[this.recording.header.names.color[this.recording.name[entry]]];
    context.fillRect(left, y, right - left, height);
  }

  drawLabel(entry, left, right, y, height, inks) {
    const { context, ink } = this, most = Math.floor((right - left - 8) / LETTER);
    const text = this.shown(entry);
    if (most < 3) return;
    const part = text.length > most ? text.slice(0, most - 1) + "\u2026" : text;
    if (inks) context.fillStyle = inks[this.recording.header.names.color[this.recording.name[entry]]];
    else {
      context.fillStyle = ink.ground;
      context.globalAlpha = 0.75;
      context.fillRect(left + 3, y + height / 2 - 8, part.length * LETTER + 4, 16);
      context.globalAlpha = 1;
      context.fillStyle = ink.ink;
    }
    context.fillText(part, left + 5, y + height / 2 + 0.5, Math.max(right - left - 6, 1));
  }

  drawName(item, y) {
    const { context, ink, names } = this;
    const { title, subtitle } = item.track ?? item.group;
    context.fillStyle = item.track ? ink.ground : ink.panel;
    context.fillRect(0, y, names, item.height - 1);
    context.fillStyle = ink.line;
    context.fillRect(names - 1, y, 1, item.height);
    const many = item.track ? item.track.small && item.track.levels?.length !== 0 : item.group.folded;
    const mark = item.track && !foldable(item.track) ? "" : many ? "\u25b8 " : "\u25be ";
    const two = subtitle && item.height >= 34;
    context.fillStyle = ink.ink;
    this.fit(mark + title, 8, y + (two ? item.height / 2 - 7 : item.height / 2), names - 14);
    context.fillStyle = ink.quiet;
    if (two) this.fit(subtitle, 8, y + item.height / 2 + 8, names - 14);
  }

  fit(text, x, y, room) {
    const most = Math.max(Math.floor(room / LETTER), 1);
    this.context.fillText(text.length > most ? text.slice(0, most - 1) + "\u2026" : text, x, y, room);
  }

  // A line, or what adds up to it: each band is drawn over those that hold it and all below it.
  drawCounter(item, y) {
    const bands = item.track.bands?.length ? item.track.bands : [item.track];
    for (const band of bands) this.drawSamples(item, y, band, bands.length > 1 ? 1 : 0.55);
  }

  drawSamples(item, y, { samples: { time, value }, color }, alpha) {
    const { context, width, names } = this, { track } = item;
    const low = Math.min(track.low, 0), span = Math.max(track.high - low, 1e-12), room = item.height - 6;
    const bottom = y + item.height - 3, tall = at => Math.max(room * (value[at] - low) / span, 0.5);
    let at = Math.max(lowerBound(time, 0, time.length, this.t0) - 1, 0);
    context.globalAlpha = alpha;
    context.fillStyle = color[this.dark ? 1 : 0];
    // Rectangles from one column to the next, each as tall as the largest sample in it: a path costs many times more.
    for (let x = Math.max(Math.floor(this.x(time[at])), names); at < time.length && x < width;) {
      let height = tall(at), next = width;
      for (at++; at < time.length; at++) {
        next = Math.min(Math.floor(this.x(time[at])), width);
        if (next > x) break;
        height = Math.max(height, tall(at));
        next = width;
      }
      context.fillRect(x, bottom - height, next - x, height);
      x = next;
    }
    context.globalAlpha = 1;
  }

  // What is chosen with the call that launched it, what was flown to, and what is measured.
  drawMarks(scroll, bottom) {
    const { context, ink } = this;
    if (this.flash) {
      const { low, high, item } = this.flash, left = this.x(low), right = Math.max(this.x(high), left + 2);
      const y = item ? RULER + item.top - scroll : RULER;
      context.strokeStyle = ink.accent;
      context.lineWidth = 2;
      context.strokeRect(left - 1, y + 1, right - left + 2, item ? item.height - 3 : bottom - RULER - 2);
    }
    if (this.drag?.area) {
      const [from, to] = [this.drag.x, this.drag.to].sort((one, other) => one - other);
      context.fillStyle = ink.accent;
      context.globalAlpha = 0.2;
      context.fillRect(from, RULER, to - from, bottom - RULER);
      context.globalAlpha = 1;
      context.fillStyle = ink.ink;
      context.fillText(duration(this.time(to) - this.time(from)), from + 4, RULER + 10);
    }
    if (this.chosen < 0) return;
    const to = this.outline(this.chosen, scroll), launch = this.recording.launch[this.chosen];
    const from = launch >= 0 ? this.outline(launch, scroll) : null;
    if (!from || !to) return;
    context.strokeStyle = ink.accent;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(from.x, from.y);
    context.bezierCurveTo((from.x + to.x) / 2, from.y, (from.x + to.x) / 2, to.y, to.x, to.y);
    context.stroke();
  }

  outline(entry, scroll) {
    const place = this.places.get(this.rowOf(entry));
    if (!place) return null;
    const { start, end } = this.recording, left = this.x(start[entry]), right = Math.max(this.x(end[entry]), left + 2);
    const y = RULER + place.item.top + place.level.top - scroll;
    this.context.strokeStyle = this.ink.ink;
    this.context.lineWidth = 1.5;
    this.context.strokeRect(left - 0.5, y - 0.5, right - left + 1, place.level.height + 1);
    return { x: left, y: y + place.level.height / 2 };
  }

  rowOf(entry) {
    const { rows } = this.recording;
    let low = 0, high = rows.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (rows[middle].first <= entry) low = middle; else high = middle - 1;
    }
    return low;
  }

  drawOverview() {
    const { overview, ratio, ink, recording, camera } = this, context = overview.getContext("2d");
    const [low, high] = recording.header.span, height = 34;
    const width = Math.max(Math.round((this.width - this.names) * ratio), 1);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = ink.panel;
    context.fillRect(0, 0, this.width, height);
    if (this.summary?.width !== width || this.summary.dark !== this.dark) this.summary = this.summaryOf(width, low, high);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.summary.canvas, this.names, 4, this.width - this.names, height - 8);
    const at = time => this.names + (time - low) / (high - low) * (this.width - this.names);
    const left = Math.max(at(this.t0), this.names), right = Math.min(at(this.t0 + camera.width * camera.scale), this.width);
    context.fillStyle = ink.ground;
    context.globalAlpha = 0.6;
    context.fillRect(this.names, 0, left - this.names, height);
    context.fillRect(right, 0, this.width - right, height);
    context.globalAlpha = 1;
    context.strokeStyle = ink.accent;
    context.lineWidth = 1.5;
    context.strokeRect(left + 0.5, 1, Math.max(right - left - 1, 2), height - 2);
    context.fillStyle = ink.quiet;
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.fillText("All " + duration(high - low), 8, height / 2, this.names - 12);
  }

  summaryOf(width, low, high) {
    const devices = this.recording.header.groups.flatMap(group => group.devices);
    const rows = devices.length ? devices.flatMap(each => [[each.gaps, this.gapShades], [each.row, this.shades[each.palette]]])
      : this.recording.header.groups.flatMap(group => group.tracks.filter(each => each.levels?.length).slice(0, 2).map(
        each => [each.levels[0][0], this.shades[each.levels[0][1]]]));
    const canvas = document.createElement("canvas"), step = devices.length ? 2 : 1;
    canvas.width = width;
    canvas.height = Math.max(rows.length / step, 1);
    const image = new ImageData(width, canvas.height), pixels = new Uint32Array(image.data.buffer);
    rows.forEach(([row, shades], at) => {
      const line = Math.floor(at / step), out = pixels.subarray(line * width, (line + 1) * width);
      if (row >= 0) paintRow(this.recording, this.recording.rows[row], { t0: low, scale: Math.max(high - low, 1) / width }, width, shades, out, Infinity);
    });
    canvas.getContext("2d").putImageData(image, 0, 0);
    return { canvas, width, dark: this.dark };
  }

  shown(entry) {
    const { names } = this.recording.header, name = this.recording.name[entry];
    return names.shown[name] || names.text[name];
  }
}

const foldable = track => track.counter !== undefined || track.small || track.levels.length > 0;
function tickText(at, every) {
  const [unit, factor] = [["s", 1e9], ["ms", 1e6], ["us", 1e3], ["ns", 1]].find(([, least]) => Math.max(Math.abs(at), every) >= least) ?? ["ns", 1];
  const digits = Math.max(0, Math.ceil(Math.log10(factor / every) - 1e-9));
  return at === 0 ? "0" : (at / factor).toFixed(digits) + " " + unit;
}
