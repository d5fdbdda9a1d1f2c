// Mouse, wheel, touch and keys on a timeline, and what is told of what they point at.

Object.assign(Timeline.prototype, {
  listen() {
    const { lanes, overview } = this;
    lanes.addEventListener("scroll", () => this.camera.redraw());
    lanes.addEventListener("wheel", event => this.wheel(event), { passive: false });
    lanes.addEventListener("pointerdown", event => this.press(event));
    lanes.addEventListener("pointermove", event => this.move(event));
    lanes.addEventListener("pointerup", event => this.release(event));
    lanes.addEventListener("pointercancel", () => { this.drag = null; this.pinch = null; });
    lanes.addEventListener("pointerleave", () => { this.card.hidden = true; });
    lanes.addEventListener("dblclick", event => {
      const found = this.at(event);
      if (found.entry >= 0) this.flyTo(this.recording.start[found.entry], this.recording.end[found.entry], null, 0.6);
    });
    const move = event => {
      const [low, high] = this.recording.header.span, rect = overview.getBoundingClientRect();
      const time = low + (event.clientX - rect.left - this.names) / (this.width - this.names) * (high - low);
      this.camera.place(time - this.anchor - this.camera.width * this.camera.scale / 2, this.camera.scale);
    };
    overview.addEventListener("pointerdown", event => { overview.setPointerCapture(event.pointerId); move(event); });
    overview.addEventListener("pointermove", event => { if (event.buttons) move(event); });
    this.touches = new Map();
  },

  place(event) {
    const rect = this.canvas.getBoundingClientRect();
    return { x: event.clientX - rect.left, y: event.clientY - rect.top };
  },

  // The wheel zooms with Ctrl, and alone once the timeline was clicked; before, it scrolls the page as everywhere.
  wheel(event) {
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      this.camera.place(this.camera.offset + event.deltaX * this.camera.scale, this.camera.scale);
      return;
    }
    if (event.shiftKey || !(event.ctrlKey || event.metaKey || document.activeElement === this.lanes)) return;
    event.preventDefault();
    const notches = event.deltaY / (event.deltaMode === 1 ? 3 : 100), factor = 1.35 ** Math.max(Math.min(notches, 4), -4);
    const { x } = this.place(event), at = Math.max(x - this.names, 0), { offset, scale, width, low, high } = this.camera;
    const next = Math.min(Math.max(scale * factor, 0.05), (high - low) * 1.1 / width);
    this.camera.place(offset + at * (scale - next), next);
    this.card.hidden = true;
  },

  press(event) {
    if (event.button) return;
    const { x, y } = this.place(event);
    this.touches.set(event.pointerId, x);
    if (x >= this.lanes.clientWidth) return;
    this.lanes.focus({ preventScroll: true });
    this.lanes.setPointerCapture(event.pointerId);
    this.drag = { x, y, to: x, offset: this.camera.offset, scroll: this.lanes.scrollTop, moved: false, area: event.shiftKey && x >= this.names };
    if (this.touches.size === 2) {
      const [one, other] = this.touches.values();
      this.pinch = { apart: Math.abs(one - other), middle: (one + other) / 2 - this.names, scale: this.camera.scale, offset: this.camera.offset };
    }
  },

  move(event) {
    const { x, y } = this.place(event), drag = this.drag;
    if (this.touches.has(event.pointerId)) this.touches.set(event.pointerId, x);
    if (this.pinch && this.touches.size === 2) {
      const [one, other] = this.touches.values(), { apart, middle, scale, offset } = this.pinch;
      const next = scale * apart / Math.max(Math.abs(one - other), 4);
      this.camera.place(offset + middle * scale - ((one + other) / 2 - this.names) * next, next);
      return;
    }
    if (!drag) return this.tell(event);
    drag.moved ||= Math.abs(x - drag.x) + Math.abs(y - drag.y) > 3;
    if (!drag.moved || drag.x < this.names) return;
    this.card.hidden = true;
    if (drag.area) {
      drag.to = Math.max(x, this.names);
      this.camera.redraw();
    } else {
      if (event.pointerType === "mouse") this.lanes.scrollTop = drag.scroll - (y - drag.y);
      this.camera.place(drag.offset - (x - drag.x) * this.camera.scale, this.camera.scale);
    }
  },

  release(event) {
    const drag = this.drag;
    this.touches.delete(event.pointerId);
    this.drag = this.touches.size ? this.drag : null;
    if (this.touches.size < 2) this.pinch = null;
    if (!drag) return;
    if (drag.moved && drag.area) {
      const [from, to] = [this.time(drag.x), this.time(drag.to)].sort((one, other) => one - other);
      this.flyTo(from, to, null, 1);
    } else if (!drag.moved) this.click(event);
  },

  click(event) {
    const { x } = this.place(event), found = this.at(event);
    const { item } = found;
    if (item && (x < this.names || !item.track)) {
      if (!item.track) item.group.folded = !item.group.folded;
      else if (item.track.small) item.track.small = false;
      else if (item.track.levels?.length > item.track.most && !item.track.open) item.track.open = true;
      else Object.assign(item.track, { small: true, open: false });
      this.arrange();
      return;
    }
    this.choose(found.gap ? -1 : found.entry);
    if (found.gap) this.describe(found.entry, item);
  },

  // The item, level and entry under the mouse; a gap where there is no event.
  at(event) {
    const { x, y } = this.place(event), down = y - RULER + this.lanes.scrollTop, none = { item: null, entry: -1, gap: false };
    if (y < RULER) return none;
    const item = this.items.find(each => down >= each.top && down < each.top + each.height);
    if (!item || x < this.names) return { ...none, item };
    const time = this.time(x), slack = 3 * this.camera.scale, { rows } = this.recording;
    const inside = down - item.top, level = item.levels.find(each => inside >= each.top && inside < each.top + each.height);
    const entry = level ? entryAt(this.recording, rows[level.row], time, slack) : -1;
    if (entry >= 0) return { item, entry, gap: false };
    const gaps = item.track ? (item.track.gaps >= 0 ? gapsOf(item.group, item.track.gaps) : -1) : level?.gaps ?? -1;
    const gap = gaps >= 0 ? entryAt(this.recording, rows[gaps], time, slack) : -1;
    return { item, entry: gap, gap: gap >= 0, time };
  },

  lines(entry, item) {
    const { recording } = this, { names, resolution, unit } = recording.header, name = recording.name[entry];
    const start = recording.start[entry], end = recording.end[entry], title = this.shown(entry);
    const many = recording.count ? recording.count[entry] : 1;
    const rounded = end - start < 50 * unit && unit > 1 ? ` (\u00b1 ${duration(unit)})` : "";
    const lines = [`${duration(end - start)}${rounded}, ${duration(start - this.origin)} from the start`];
    if (many > 1) lines.push(`${many.toLocaleString("en-US")} short events drawn as one, busy ${duration(recording.spent[entry + 1] - recording.spent[entry])}${resolution ? `; this page tells events apart from ${duration(resolution)} on` : ""}`);
    if (names.told[name]) lines.push(names.told[name]);
    if (item?.track) lines.push(item.track.words);
    if (names.shown[name]) lines.push(names.text[name]);
    const launch = recording.launch[entry];
    if (launch >= 0) lines.push(`launched by ${this.shown(launch)}, ${duration(Math.max(start - recording.end[launch], 0))} earlier`);
    return { title, lines };
  },

  // What a counter of memory consists of at a time, the uppermost first.
  bandsAt({ bands = [], unit }, time) {
    const held = bands.map(({ samples }) => samples.value[lowerBound(samples.time, 0, samples.time.length, time + 1) - 1] ?? 0);
    const lines = bands.map(({ title }, at) => [title, held[at] - (held[at + 1] ?? 0)]);
    return lines.filter(([, most]) => most > 0).map(([title, most]) => `${title} ${quantity(most, unit)}`);
  },

  tell(event) {
    const { item, entry, gap, time } = this.at(event), track = item?.track;
    this.lanes.style.cursor = item && (this.place(event).x < this.names || !track) ? "pointer" : "default";
    let title = "", lines = [];
    if (entry >= 0) ({ title, lines } = this.lines(entry, gap ? { } : item));
    else if (track?.samples && time !== undefined) {
      const at = lowerBound(track.samples.time, 0, track.samples.time.length, time + 1) - 1;
      if (at >= 0) { title = track.title; lines = [quantity(track.samples.value[at], track.unit), ...this.bandsAt(track, time)]; }
    }
    this.card.hidden = !title;
    if (!title) return;
    this.card.replaceChildren(make("strong", "", title), ...lines.map(line => make("div", "", line)));
    const { width, height } = this.card.getBoundingClientRect();
    this.card.style.left = Math.max(Math.min(event.clientX + 14, innerWidth - width - 8), 4) + "px";
    this.card.style.top = (event.clientY + 18 + height > innerHeight ? Math.max(event.clientY - height - 12, 4) : event.clientY + 18) + "px";
  },

  choose(entry) {
    this.chosen = entry;
    this.flash = null;
    if (entry >= 0) this.describe(entry, this.places.get(this.rowOf(entry))?.item);
    else this.details.replaceChildren();
    this.camera.redraw();
  },

  describe(entry, item) {
    const { title, lines } = this.lines(entry, item), { recording } = this;
    const button = (text, act) => {
      const found = make("button", "", text);
      found.type = "button";
      found.addEventListener("click", act);
      return found;
    };
    const buttons = make("div", "buttons");
    buttons.append(button("Zoom to it", () => this.flyTo(recording.start[entry], recording.end[entry], null, 0.6)));
    const launch = recording.launch[entry];
    if (launch >= 0) buttons.append(button("Go to the launch", () => {
      this.flyTo(recording.start[launch], recording.end[launch], null, 0.2);
      this.choose(launch);
    }));
    this.details.replaceChildren(make("strong", "", title), ...lines.map(line => make("div", "", line)), buttons);
  },

  // To [low, high) of a lane; -1 for none in particular.
  flyTo(low, high, lane = null, share = 0.35) {
    this.flash = null;
    if (lane !== null) {
      const owner = this.recording.header.groups.find(group => group.tracks.some(track => track.lanes?.includes(lane)));
      const track = owner?.tracks.find(each => each.lanes?.includes(lane));
      if (owner?.folded || track?.small) {
        owner.folded = false;
        track.small = false;
        this.arrange();
      }
      const item = this.items.find(each => each.track === track && track);
      if (item) {
        const room = this.lanes.clientHeight - RULER;
        if (item.top < this.lanes.scrollTop || item.top + item.height > this.lanes.scrollTop + room)
          this.lanes.scrollTop = Math.max(item.top - (room - item.height) / 2, 0);
      }
      this.flash = { low, high, item };
    }
    this.camera.fly(low - this.anchor, high - this.anchor, share);
  },

  // The next event whose name holds the text, after the middle of what is seen; false for none.
  find(text) {
    const { recording, camera } = this, { names } = recording.header, wanted = text.toLowerCase();
    const fits = names.text.map((name, at) => name.toLowerCase().includes(wanted) || names.shown[at].toLowerCase().includes(wanted));
    const from = this.chosen >= 0 && fits[recording.name[this.chosen]] ? recording.start[this.chosen] : this.t0;
    let best = -1, earliest = -1;
    for (const { first, last } of [...this.places.keys()].map(row => recording.rows[row]))
      for (let i = first; i < last; i++) {
        if (!fits[recording.name[i]]) continue;
        if (recording.start[i] > from && (best < 0 || recording.start[i] < recording.start[best])) best = i;
        if (earliest < 0 || recording.start[i] < recording.start[earliest]) earliest = i;
      }
    const found = best >= 0 ? best : earliest;
    if (found < 0) return false;
    const length = recording.end[found] - recording.start[found];
    this.flyTo(recording.start[found], recording.end[found], null, Math.min(length / (camera.width * camera.scale), 0.5) || 0.001);
    this.choose(found);
    return true;
  },
});
