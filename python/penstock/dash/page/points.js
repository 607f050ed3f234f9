// The points of the curves that the server has sent, by device and quantity.

const COLUMNS = 3; // time, lowest and highest value

export function curveName(device, key) {
  return JSON.stringify([device, key]);
}

export class Points {
  constructor() {
    this.curves = new Map();
  }

  clear() {
    this.curves.clear();
  }

  // The columns of a curve; empty ones if it has no points.
  of(device, key) {
    const name = curveName(device, key);
    if (!this.curves.has(name)) this.curves.set(name, Array.from({ length: COLUMNS }, () => []));
    return this.curves.get(name);
  }

  // Replace the points from `from` on by new ones.
  take({ device, key, from, columns }) {
    const found = this.of(device, key);
    const [t] = found;
    let kept = t.length;
    while (kept > 0 && t[kept - 1] >= from) kept--;
    for (let n = 0; n < COLUMNS; n++) {
      found[n].length = kept;
      for (const value of columns[n]) found[n].push(Number.isNaN(value) ? null : value);
    }
  }

  // Remove the points before the visible range, except the last one, at which the line begins.
  forgetBefore(moment) {
    for (const columns of this.curves.values()) {
      const [t] = columns;
      let gone = 0;
      while (gone + 1 < t.length && t[gone + 1] < moment) gone++;
      if (gone > 64) for (const column of columns) column.splice(0, gone);
    }
  }
}

// The points of a curve, with an empty point in each gap that is longer than `longest` seconds.
export function withGaps(columns, longest) {
  const [t] = columns;
  let found = null;
  for (let n = 1; n < t.length; n++) {
    const gap = t[n] - t[n - 1] > longest;
    if (gap && found === null) found = columns.map((column) => column.slice(0, n));
    if (found === null) continue;
    if (gap) {
      found[0].push((t[n] + t[n - 1]) / 2);
      for (let c = 1; c < COLUMNS; c++) found[c].push(null);
    }
    for (let c = 0; c < COLUMNS; c++) found[c].push(columns[c][n]);
  }
  return found || columns;
}

// The curves on common times: [times, lowest, highest, lowest, highest, ...]. Where a curve has no
// point at a time, its value is undefined, which uPlot does not draw as a gap.
export function aligned(curves) {
  if (!curves.length) return [[]];
  const [first] = curves;
  const same = curves.every(([t]) => t.length === first[0].length && t.every((x, n) => x === first[0][n]));
  if (same) return [first[0], ...curves.flatMap(([, low, high]) => [low, high])];
  return uPlot.join(curves);
}

// The lowest and the highest value of a curve between two times; null without any. With `positive`,
// only values above 0 count, for a logarithmic axis.
export function extremes([t, low, high], begin, end, positive = false) {
  let lowest = Infinity;
  let highest = -Infinity;
  for (let n = 0; n < t.length; n++) {
    if (t[n] < begin || t[n] > end || low[n] === null || low[n] === undefined) continue;
    if (positive && high[n] <= 0) continue;
    if (high[n] > highest) highest = high[n];
    const least = positive && low[n] <= 0 ? high[n] : low[n];
    if (least < lowest) lowest = least;
  }
  return lowest > highest ? null : [lowest, highest];
}
