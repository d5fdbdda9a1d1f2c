// What several timelines of one page look at: an offset from the anchor of each, and ns for each pixel.

class Camera {
  constructor() {
    this.offset = 0;
    this.scale = 1;
    this.width = 800;
    this.target = null;
    this.drawers = [];
    this.pending = false;
    this.calm = matchMedia("(prefers-reduced-motion: reduce)");
  }

  // Bounds of what can be seen, in ns from the anchor.
  bound(low, high) {
    this.low = Math.min(this.low ?? low, low);
    this.high = Math.max(this.high ?? high, high);
  }

  redraw() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(now => {
      this.pending = false;
      this.step(now);
      for (const draw of this.drawers) draw();
    });
  }

  place(offset, scale) {
    this.target = null;
    this.set(offset, scale);
    this.redraw();
  }

  set(offset, scale) {
    const length = this.high - this.low, most = length * 1.1 / this.width;
    this.scale = Math.min(Math.max(scale, 0.05), most);
    const room = this.width * this.scale, spare = Math.min(length, room) * 0.1;
    this.offset = Math.min(Math.max(offset, this.low - spare), Math.max(this.high + spare - room, this.low - spare));
  }

  zoom(factor, x) {
    const { offset, scale } = this.target ? { offset: this.target.low, scale: this.target.scale } : this;
    const under = offset + x * scale, next = scale * factor;
    this.glide(under - x * next, next, 120);
  }

  pan(pixels) {
    const { offset, scale } = this.target ? { offset: this.target.low, scale: this.target.scale } : this;
    this.glide(offset + pixels * scale, scale, 120);
  }

  // To [low, high), so that it fills `share` of the width.
  fly(low, high, share = 0.9, time = 450) {
    const scale = Math.max(high - low, 1) / (this.width * share);
    this.glide((low + high) / 2 - this.width * scale / 2, scale, time);
  }

  glide(low, scale, time) {
    if (this.calm.matches) return this.place(low, scale);
    this.target = { from: [this.offset, this.scale], low, scale, began: performance.now(), time };
    this.redraw();
  }

  step(now) {
    const target = this.target;
    if (!target) return;
    const part = Math.min(Math.max((now - target.began) / target.time, 0), 1), eased = 1 - (1 - part) ** 3;
    const scale = target.from[1] * (target.scale / target.from[1]) ** eased;
    const middle = (at, size) => at + this.width * size / 2;
    const from = middle(...target.from), to = middle(target.low, target.scale);
    // the middle moves as fast as the scale allows, so that what is flown to stays in sight
    const moved = target.scale === target.from[1] ? eased : (scale - target.from[1]) / (target.scale - target.from[1]);
    this.set(from + (to - from) * moved - this.width * scale / 2, scale);
    if (part === 1) this.target = null; else this.redraw();
  }
}
