// The packed recording of a page as typed arrays. See viewer/reports/interactive.

async function unpacked(base64) {
  const text = atob(base64);
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function reader(bytes, at) {
  return (count, Column) => {
    const found = new Column(count), width = bytes[at++];
    let factor = 1;
    for (let plane = 0; plane < width; plane++, factor *= 256)
      for (let i = 0; i < count; i++) found[i] += bytes[at++] * factor;
    return found;
  };
}

function recordingOf(bytes) {
  const length = bytes[0] + bytes[1] * 256 + bytes[2] * 65536 + bytes[3] * 16777216;
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  const next = reader(bytes, 4 + length);
  const total = header.rows.reduce((sum, each) => sum + each, 0);
  const pause = next(total, Float64Array), taken = next(total, Float64Array);
  const name = next(total, Int32Array), step = next(total, Float64Array);
  const count = header.joined ? next(total, Int32Array) : null;
  const share = header.joined ? next(total, Uint8Array) : null;
  const end = new Float64Array(total), launch = new Int32Array(total).fill(-1);
  const rows = [];
  let at = 0, launched = 0;
  for (const size of header.rows) {
    let clock = 0;
    const first = at;
    for (; at < first + size; at++) {
      clock += pause[at];
      pause[at] = clock * header.unit;
      clock += taken[at];
      end[at] = clock * header.unit;
      if (step[at]) {
        const folded = step[at] - 1;
        launched += folded % 2 ? -(folded + 1) / 2 : folded / 2;
        launch[at] = launched;
      }
    }
    rows.push({ first, last: at, index: null });
  }
  const start = pause, spent = new Float64Array(total + 1);
  for (let i = 0; i < total; i++)
    spent[i + 1] = spent[i] + (end[i] - start[i]) * (share && count[i] > 1 ? share[i] / 255 : 1);
  const recording = { header, rows, start, end, name, launch, count, spent };
  for (const group of header.groups)
    for (const track of group.tracks)
      if (track.counter !== undefined) {
        track.samples = samplesOf(track, track, next);
        for (const band of track.bands ?? []) band.samples = samplesOf(band, track, next);
      }
  for (const row of rows) row.index = longestOfRuns(recording, row);
  return recording;
}

function samplesOf({ counter }, { low, high }, next) {
  const time = next(counter, Float64Array), level = next(counter, Float64Array);
  const value = new Float64Array(counter);
  for (let i = 0; i < counter; i++) {
    if (i) time[i] += time[i - 1];
    value[i] = low + (high - low) * level[i] / 65535;
  }
  return { time, value };
}

// For runs of 16, 256, 4096 ... entries which one is the longest.
function longestOfRuns({ start, end }, { first, last }) {
  const levels = [];
  let size = last - first, entry = i => first + i;
  while (size > 16) {
    const level = new Int32Array(Math.ceil(size / 16));
    for (let run = 0; run < level.length; run++) {
      let best = entry(run * 16);
      for (let i = run * 16 + 1; i < Math.min(run * 16 + 16, size); i++) {
        const other = entry(i);
        if (end[other] - start[other] > end[best] - start[best]) best = other;
      }
      level[run] = best;
    }
    levels.push(level);
    size = level.length;
    entry = i => level[i];
  }
  return levels;
}
