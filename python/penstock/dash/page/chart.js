// A chart of one or several curves over time, with an axis on the left and one on the right.

import { Drag } from "./drag.js";
import { envelopePaths } from "./envelope_path.js";
import { aligned, extremes, withGaps } from "./points.js";
import { clockTime, plotDate, timeAxis } from "./times.js";
import { powersOf, shown, shownAlong, shownAlongPowers } from "./words.js";

const SCALES = { left: "y", right: "y2" };
const LABEL_PX = 6.3;
const LONGEST_NOTE = 28;

export function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// An axis is as wide as its longest number.
function axisSize(plot, values, axis, cycle) {
  if (cycle > 1) return plot.axes[axis]._size;
  const longest = Math.max(4, ...(values || []).map((text) => text?.length ?? 0));
  return Math.ceil(longest * LABEL_PX + 14);
}

export class Chart {
  // A curve is {device, key, name, unit, side, color, dashed, period(), digits}. `owner` is the
  // card; `log` has for each side whether its axis is logarithmic; `limits` are lines to draw.
  constructor(root, owner, curves, log, limits) {
    this.root = root;
    this.owner = owner;
    this.curves = curves;
    this.log = log;
    this.limits = limits;
    this.plot = null;
    this.range = null; // of the values on the left axis
  }

  get data() {
    return this.plot === null ? [[]] : this.plot.data;
  }

  draw(points, range, bucket) {
    const found = this.curves.map((curve) => {
      const longest = Math.max(3 * bucket, 5 * curve.period(), 0.5);
      return withGaps(points.of(curve.device, curve.key), longest);
    });
    const data = aligned(found);
    const { clientWidth: width, clientHeight: height } = this.root;
    if (this.plot === null) {
      this.plot = new uPlot(this.options(width, height), data, this.root);
    } else {
      if (this.plot.width !== width || this.plot.height !== height) this.plot.setSize({ width, height });
      this.plot.setData(data, false);
    }
    const ends = { left: this.ends("left", found, range), right: this.ends("right", found, range) };
    this.range = ends.left.found;
    this.plot.batch(() => {
      this.plot.setScale("x", { min: range[0], max: range[1] });
      for (const side of this.sides) this.plot.setScale(SCALES[side], ends[side]);
    });
  }

  get sides() {
    const used = new Set(this.curves.map((curve) => curve.side));
    return used.has("right") ? ["left", "right"] : ["left"];
  }

  // The ends of an axis: the extremes of the visible values with a margin; on a logarithmic axis the
  // powers of ten around them.
  ends(side, found, [begin, end]) {
    const log = this.log[side];
    let low = Infinity;
    let high = -Infinity;
    this.curves.forEach((curve, n) => {
      const inside = curve.side === side ? extremes(found[n], begin, end, log) : null;
      if (inside === null) return;
      low = Math.min(low, inside[0]);
      high = Math.max(high, inside[1]);
    });
    if (low > high) return { min: log ? 1 : 0, max: log ? 10 : 1, found: null };
    if (log) {
      const [first, last] = [Math.floor(Math.log10(low) + 1e-9), Math.ceil(Math.log10(high) - 1e-9)];
      return { min: 10 ** first, max: 10 ** Math.max(last, first + 1), found: [low, high] };
    }
    const margin = (high - low) * 0.06 || Math.abs(high) * 0.02 || 1;
    return { min: low - margin, max: high + margin, found: [low, high] };
  }

  options(width, height) {
    const axis = { stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const axes = [{ ...axis, size: 38, ...timeAxis() }];
    const scales = { x: { time: true, auto: false } };
    for (const side of this.sides) {
      const log = this.log[side];
      // If there are two axes, each has the colour of its first curve.
      const paint = this.sides.length > 1 ? color(this.curves.find((curve) => curve.side === side)?.color ?? "--soft") : axis.stroke;
      scales[SCALES[side]] = { auto: false, distr: log ? 3 : 1 };
      axes.push({
        ...axis,
        stroke: paint,
        scale: SCALES[side],
        side: side === "left" ? 3 : 1,
        size: axisSize,
        gap: 4,
        grid: { ...axis.grid, show: side === "left", ...(log && { filter: (plot, splits) => powersOf(splits) }) },
        values: (plot, splits, n, space, step) => (log ? shownAlongPowers(splits) : shownAlong(splits, step)),
      });
    }
    const series = [{}];
    for (const curve of this.curves) {
      const paint = color(curve.color);
      series.push(
        {
          scale: SCALES[curve.side],
          stroke: paint,
          fill: paint,
          width: 1.5,
          dash: curve.dashed ? [5, 3] : undefined,
          points: { show: false },
          paths: envelopePaths(series.length),
        },
        { scale: SCALES[curve.side], show: false },
      );
    }
    return {
      width,
      height,
      // Half of the last time label extends beyond the right end of the axis.
      padding: [10, this.sides.length > 1 ? 0 : 32, 0, 0],
      legend: { show: false },
      tzDate: plotDate,
      scales,
      axes,
      series,
      cursor: { sync: { key: "time" }, drag: { x: false, y: false }, points: { show: false } },
      hooks: {
        ready: [(plot) => this.prepare(plot)],
        setCursor: [() => this.owner.read()],
        drawAxes: [(plot) => this.drawLimits(plot)],
        draw: [(plot) => this.drawNotes(plot)],
      },
    };
  }

  prepare(plot) {
    this.chosen = document.createElement("div");
    this.chosen.className = "chosen";
    this.chosen.hidden = true;
    plot.over.append(this.chosen);
    const { page } = this.owner;
    new Drag(plot.over, (x) => plot.posToVal(x, "x"), {
      dragging: (range, event) => {
        page.markChosen(range);
        // uPlot moves the cursor for a mouse only.
        if (event.pointerType !== "mouse") {
          const box = plot.over.getBoundingClientRect();
          plot.setCursor({ left: event.clientX - box.left, top: event.clientY - box.top }, true, true);
        }
      },
      left: () => page.markChosen(null),
      chosen: (range) => page.zoomTo(range),
    });
  }

  // Show the range of a drag on this or another chart; null removes it.
  markChosen(range) {
    if (this.plot === null) return;
    this.chosen.hidden = range === null;
    if (range === null) return;
    const [left, right] = range.map((t) => this.plot.valToPos(t, "x"));
    this.chosen.style.left = `${left}px`;
    this.chosen.style.width = `${right - left}px`;
  }

  drawLimits(plot) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.strokeStyle = color("--alarm");
    ctx.setLineDash([2 * devicePixelRatio, 4 * devicePixelRatio]);
    for (const { value, side } of this.limits) {
      if (value === null || (this.log[side] && value <= 0)) continue;
      const y = plot.valToPos(value, SCALES[side], true);
      if (y < bbox.top || y > bbox.top + bbox.height) continue;
      ctx.beginPath();
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
      ctx.stroke();
    }
    ctx.restore();
  }

  // Draw notes: a line at the time of each, and its text where there is room.
  drawNotes(plot) {
    const { ctx, bbox } = plot;
    const notes = this.owner.notes();
    if (!notes.length) return;
    const { min, max } = plot.scales.x;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = color("--note");
    ctx.font = `${11 * devicePixelRatio}px system-ui`;
    ctx.textBaseline = "top";
    ctx.textAlign = "left";
    ctx.setLineDash([]);
    ctx.lineWidth = devicePixelRatio;
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    let free = -Infinity;
    for (const { t, text } of notes) {
      if (t < min || t > max) continue;
      const x = Math.round(plot.valToPos(t, "x", true)) + 0.5;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      if (x < free) continue;
      const words = text.length > LONGEST_NOTE ? `${text.slice(0, LONGEST_NOTE - 1)}…` : text;
      const width = ctx.measureText(words).width;
      const left = Math.min(x + 4 * devicePixelRatio, bbox.left + bbox.width - width - 4);
      ctx.fillText(words, left, bbox.top + 2 * devicePixelRatio);
      free = left + width + 8 * devicePixelRatio;
    }
    ctx.restore();
  }

  // The time and values at the cursor as a text; "" if the cursor is not on the chart.
  readingAtCursor() {
    const n = this.plot?.cursor.idx;
    if (n === null || n === undefined || this.plot.cursor.left < 0) return "";
    return this.reading(n);
  }

  reading(n) {
    const { data } = this;
    const span = (low, high, digits) => {
      if (low === undefined) return "–";
      return low === high ? shown(low, digits) : `${shown(low, digits)} to ${shown(high, digits)}`;
    };
    const parts = this.curves.map((curve, c) => {
      const text = span(data[1 + 2 * c][n], data[2 + 2 * c][n], curve.digits);
      const unit = curve.dashed || !curve.unit ? "" : ` ${curve.unit}`;
      return `${curve.says ? `${curve.says} ` : ""}${text}${unit}`;
    });
    return `${clockTime(data[0][n])}: ${parts.join(", ")}`;
  }

  // The point at a time, or the one before it.
  indexAt(moment) {
    return Math.max(0, this.data[0].findLastIndex((t) => t <= moment));
  }

  // Put the cursor at a time; null removes it.
  putCursor(moment) {
    if (this.plot === null) return;
    const { min, max } = this.plot.scales.x;
    const inside = moment !== null && moment >= min && moment <= max;
    const left = inside ? this.plot.valToPos(moment, "x") : -10;
    this.plot.setCursor({ left, top: inside ? this.plot.over.clientHeight / 2 : -10 }, true, false);
  }

  // The next draw() makes a new plot: uPlot fixes colours and axes when a plot is made.
  destroy() {
    this.plot?.destroy();
    this.plot = null;
  }
}
