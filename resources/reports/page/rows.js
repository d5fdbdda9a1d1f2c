// What a row shows in each column of pixels; its cost follows the width of the view, not the number of events.

const SHADES = 24, FAINTEST = 0.38, WIDE = 1.5, LABELLED = 26;

// The first entry of [low, high) whose value is at least `least`.
function firstAtLeast(values, low, high, least) {
  let reach = 1;
  while (low + reach < high && values[low + reach] < least) reach *= 2;
  if (low >= high || values[low] >= least) return low;
  let from = low + (reach >> 1), to = Math.min(low + reach, high);
  while (from < to) {
    const middle = (from + to) >> 1;
    if (values[middle] < least) from = middle + 1; else to = middle;
  }
  return from;
}

function lowerBound(values, low, high, least) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < least) low = middle + 1; else high = middle;
  }
  return low;
}

function longestOf({ start, end }, { first, index }, low, high) {
  let best = low, most = end[low] - start[low], from = low - first, to = high - first, level = null;
  for (let depth = 0; ; depth++) {
    const last = to - from <= 32 || depth === index.length;
    const until = last ? to : (from + 15) & ~15, since = last ? to : to & ~15;
    for (let i = from; i < to; i++) {
      if (i === until) i = since;
      if (i >= to) break;
      const entry = level ? level[i] : first + i, length = end[entry] - start[entry];
      if (length > most) { best = entry; most = length; }
    }
    if (last) return best;
    from = until >> 4;
    to = since >> 4;
    level = index[depth];
  }
}

// Writes the colours of a row into out[0, width) and returns the entries at least `least` columns wide.
function paintRow(recording, row, view, width, shades, out, least) {
  const { start, end, name, spent, header } = recording, { t0, scale } = view, colors = header.names.color;
  const named = [], t1 = t0 + width * scale;
  let i = lowerBound(end, row.first, row.last, t0);
  while (i < row.last && start[i] < t1) {
    const left = (start[i] - t0) / scale, right = (end[i] - t0) / scale;
    const shade = colors[name[i]] * (SHADES + 1);
    if (right - left >= WIDE) {
      const from = Math.max(Math.round(left), 0), to = Math.min(Math.max(Math.round(right), from + 1), width);
      const part = spent[i + 1] - spent[i], level = part < end[i] - start[i] ? Math.round(SHADES * part / (end[i] - start[i])) : SHADES;
      out.fill(shades[shade + level], from, right - left >= 4 && to < width ? to - 1 : to);
      if (right - left >= least) named.push(i);
      i++;
      continue;
    }
    const column = Math.max(Math.floor(left), 0), until = t0 + (column + 1) * scale;
    let j = firstAtLeast(start, i + 1, row.last, until);
    if (j - 1 > i && (end[j - 1] - start[j - 1]) / scale >= WIDE) j--;
    const busy = Math.min((spent[j] - spent[i]) / scale, 1), best = j - i > 1 ? longestOf(recording, row, i, j) : i;
    if (column < width) out[column] = shades[colors[name[best]] * (SHADES + 1) + Math.round(busy * SHADES)];
    i = j;
  }
  return named;
}

// The entry of a row at a time, or the nearest one within `slack`; -1 for none.
function entryAt({ start, end }, row, when, slack) {
  const at = lowerBound(end, row.first, row.last, when);
  let best = -1, nearest = slack;
  for (const i of [at - 1, at]) {
    if (i < row.first || i >= row.last) continue;
    const away = Math.max(start[i] - when, when - end[i], 0);
    if (away < nearest || (away === 0 && best < 0)) { best = i; nearest = away; }
  }
  return best;
}

function rgb(color) {
  return [1, 3, 5].map(at => parseInt(color.slice(at, at + 2), 16));
}

// What can be read on a colour: dark or light, whichever stands out more.
function inkOn(color) {
  const [red, green, blue] = rgb(color).map(part => part / 255).map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 ? "#10131a" : "#ffffff";
}

// For each colour its shades from hardly busy to full, as pixels.
function shadesOf(colors) {
  const found = new Uint32Array(Math.max(colors.length, 1) * (SHADES + 1));
  colors.forEach((color, at) => {
    const [red, green, blue] = rgb(color);
    for (let level = 0; level <= SHADES; level++) {
      const alpha = Math.round(255 * (FAINTEST + (1 - FAINTEST) * level / SHADES));
      found[at * (SHADES + 1) + level] = ((alpha << 24) | (blue << 16) | (green << 8) | red) >>> 0;
    }
  });
  return found;
}

const threeDigits = value => {
  const size = Math.abs(value);
  if (size >= 99.95 || value === 0) return Math.round(value).toLocaleString("en-US");
  return size >= 9.995 ? value.toFixed(1) : size >= 0.9995 ? value.toFixed(2) : String(+value.toPrecision(3));
};
const scaled = (value, units) => {
  const [unit, factor] = units.find(([, least]) => Math.abs(value) >= least * 0.9995) || units[units.length - 1];
  return threeDigits(value / factor) + " " + unit;
};
const duration = ns => scaled(ns, [["s", 1e9], ["ms", 1e6], ["us", 1e3], ["ns", 1]]);
const quantity = (value, unit) => unit === "ns" ? duration(value)
  : /^(B|bytes?)$/.test(unit) ? scaled(value, [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["KB", 1e3], ["B", 1]])
  : (threeDigits(value) + " " + unit).trim();
