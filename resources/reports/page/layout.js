// Where the lanes of a recording lie: headings of ranks, lanes with their levels, counters.

const HEADING = 26, COLLAPSED = 22, COUNTER = 44, PADDING = 4, FOOT = 5;

function sizeOf(track) {
  if (track.counter !== undefined) return { height: track.small ? COLLAPSED : COUNTER, levels: [] };
  const count = track.small ? 1 : Math.min(track.levels.length, track.open ? Infinity : track.most);
  const foot = track.gaps >= 0 ? FOOT : 0;
  const height = track.small ? COLLAPSED : Math.max(count * track.row + 2 * PADDING + foot, track.least);
  const pitch = (height - 2 * PADDING - foot) / Math.max(count, 1);
  const levels = track.levels.slice(0, count).map(([row, palette], at) => ({
    row, palette, top: PADDING + Math.round(at * pitch), height: Math.max(Math.round(pitch) - 1, 2),
  }));
  return { height, levels };
}

// Items from top to bottom, and for each row of the recording the item and level that shows it.
function layOut(groups) {
  const items = [], places = new Map();
  let top = 0;
  const add = item => {
    items.push({ ...item, top });
    for (const level of item.levels) places.set(level.row, { item: items[items.length - 1], level });
    top += item.height;
  };
  for (const group of groups) {
    if (groups.length > 1) add({ group, levels: group.folded ? stripLevels(group) : [], height: HEADING });
    if (group.folded) continue;
    for (const track of group.tracks) add({ group, track, ...sizeOf(track) });
  }
  return { items, places, height: top };
}

function stripLevels(group) {
  const height = Math.max(Math.floor((HEADING - 6) / Math.max(group.devices.length, 1)), 2);
  return group.devices.map(({ row, palette, gaps }, at) => ({ row, palette, gaps, top: 3 + at * height, height }));
}

const gapsOf = (group, device) => group.devices.find(each => each.device === device)?.gaps ?? -1;

// "Round" times on a ruler, at least `least` apart.
function ticks(t0, t1, least) {
  const unit = 10 ** Math.floor(Math.log10(least));
  const every = [1, 2, 5, 10].map(each => each * unit).find(each => each >= least);
  const found = [];
  for (let at = Math.ceil(t0 / every) * every; at <= t1; at += every) found.push(at);
  return { every, found };
}
