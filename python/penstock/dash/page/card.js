// One device: its tile, and its chart of value and setpoint.

import { Drag } from "./drag.js";
import { alarmWord, clockTime, shown, shownAlong } from "./words.js";

const COLUMNS = 5;

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function element(tag, className, parent, text = "") {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.textContent = text;
  parent.append(made);
  return made;
}

// uPlot's own labels in 24 hours: [step in seconds, label, and below it what follows a new day].
const TIME_LABELS = [
  [31536000, "{YYYY}", null, null, null, null, null, null, 1],
  [2419200, "{YYYY}-{MM}", null, null, null, null, null, null, 1],
  [86400, "{MM}-{DD}", "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
  [0.001, "{HH}:{mm}:{ss}.{fff}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
];

// Labels with milliseconds are longer.
function labelSpace(plot, axis, begin, end, width) {
  return ((end - begin) / width) * 60 < 1 ? 86 : 60;
}

export class Card {
  constructor(device, page) {
    this.device = device;
    this.page = page;
    this.state = null;
    this.visible = false;
    this.clear();
    this.plot = null;
    this.root = document.createElement("article");
    this.root.className = "card";
    this.root.dataset.device = device.name;
    const top = element("div", "top", this.root);
    const name = element("h2", "", top, device.name);
    const about = [device.unit_id && `unit ${device.unit_id}`, device.quantity].filter(Boolean);
    element("span", "about", name, about.length ? ` ${about.join(", ")}` : "");
    this.root.setAttribute("aria-label", `${device.name}, ${device.quantity}`);
    this.buttons = element("div", "buttons", top);
    const line = element("div", "", this.root);
    this.value = element("span", "value", line, "–");
    element("span", "unit", line, ` ${device.unit} `);
    this.aim = element("span", "aim", line);
    this.marks = element("div", "marks", this.root);
    this.error = element("div", "error", this.root);
    this.chart = element("div", "chart", this.root);
    this.chart.setAttribute("role", "img");
    this.chart.tabIndex = 0;
    this.chart.setAttribute("aria-describedby", "chart-keys");
    this.chart.addEventListener("keydown", (event) => this.pressed(event));
    this.chart.addEventListener("blur", () => this.page.readAll(null));
    this.chart.addEventListener("pointermove", () => this.page.readAll(null, false));
    this.read = element("div", "read", this.root);
    this.counts = element("div", "counts", this.root);
    this.setControls([]);
  }

  setControls(abilities) {
    this.buttons.replaceChildren();
    for (const ability of abilities) {
      const label = ability === "setpoint" ? "Setpoint…" : "Gas…";
      const button = element("button", "", this.buttons, label);
      button.type = "button";
      button.setAttribute("aria-label", `${label.slice(0, -1)} of ${this.device.name}`);
      button.onclick = () => this.page.change(this, ability);
    }
  }

  setState(state) {
    this.state = state;
    this.value.textContent = shown(state.value);
    this.value.classList.toggle("old", state.error !== null || state.alarms.includes("silent"));
    this.aim.textContent = this.device.setpoint ? `setpoint ${shown(state.setpoint)}` : "";
    const marks = [
      ...state.alarms.map((word) => [alarmWord(word), word === "gaps" ? "mark" : "mark bad"]),
      ...state.status.split(",").filter(Boolean).map((code) => [code, "mark"]),
    ];
    if (!marks.length) marks.push([state.t === null ? "waiting" : "ok", "mark ok"]);
    const key = JSON.stringify(marks);
    if (key !== this.marksKey) {
      this.marksKey = key;
      this.marks.replaceChildren();
      for (const [text, className] of marks) element("span", className, this.marks, text);
    }
    const bad = state.alarms.some((word) => word !== "gaps");
    this.root.classList.toggle("alarm", bad);
    this.error.textContent = state.error || "";
    const counts = [`${state.samples} samples`];
    if (state.errors) counts.push(`${state.errors} failed`);
    if (state.missed) counts.push(`${state.missed} missed`);
    this.counts.textContent = counts.join(", ");
  }

  clear() {
    this.data = Array.from({ length: COLUMNS }, () => []);
  }

  // Replace the points from `from` on by new ones.
  take(from, columns) {
    const t = this.data[0];
    let kept = t.length;
    while (kept > 0 && t[kept - 1] >= from) kept--;
    for (let n = 0; n < COLUMNS; n++) {
      this.data[n].length = kept;
      for (const value of columns[n]) this.data[n].push(Number.isNaN(value) ? null : value);
    }
  }

  // Forget what lies before the visible range, but for one point that the line begins at.
  forgetBefore(moment) {
    const t = this.data[0];
    let gone = 0;
    while (gone + 1 < t.length && t[gone + 1] < moment) gone++;
    if (gone > 64) for (const column of this.data) column.splice(0, gone);
  }

  // The points, with an empty one where samples are missing.
  withGaps(bucket) {
    const [t] = this.data;
    const longest = Math.max(3 * bucket, 5 * (this.state?.period || 0), 0.5);
    let found = null;
    for (let n = 1; n < t.length; n++) {
      if (t[n] - t[n - 1] > longest && found === null) found = this.data.map((c) => c.slice(0, n));
      if (found === null) continue;
      if (t[n] - t[n - 1] > longest) {
        found[0].push((t[n] + t[n - 1]) / 2);
        for (let c = 1; c < COLUMNS; c++) found[c].push(null);
      }
      for (let c = 0; c < COLUMNS; c++) found[c].push(this.data[c][n]);
    }
    return found || this.data;
  }

  draw(range, bucket) {
    if (!this.visible) return;
    const data = this.withGaps(bucket);
    const { clientWidth: width, clientHeight: height } = this.chart;
    if (this.plot === null) {
      this.plot = new uPlot(this.options(width, height), data, this.chart);
    } else {
      if (this.plot.width !== width || this.plot.height !== height) this.plot.setSize({ width, height });
      this.plot.setData(data, false);
    }
    this.plot.batch(() => {
      this.plot.setScale("x", { min: range[0], max: range[1] });
      this.plot.setScale("y", this.extent(data, range));
    });
    const points = data[0].length;
    this.chart.setAttribute(
      "aria-label",
      points
        ? `Chart of ${this.device.name}: from ${shown(this.low)} to ${shown(this.high)} ${this.device.unit}`
        : `Chart of ${this.device.name}: no samples in this range`,
    );
  }

  extent(data, range) {
    let low = Infinity;
    let high = -Infinity;
    this.low = this.high = null;
    for (let n = 0; n < data[0].length; n++) {
      if (data[0][n] < range[0] || data[0][n] > range[1]) continue;
      for (let c = 1; c < COLUMNS; c++) {
        const value = data[c][n];
        if (value === null) continue;
        if (value < low) low = value;
        if (value > high) high = value;
      }
    }
    if (low > high) return { min: 0, max: 1 };
    this.low = low;
    this.high = high;
    const margin = (high - low) * 0.06 || Math.abs(high) * 0.02 || 1;
    return { min: low - margin, max: high + margin };
  }

  options(width, height) {
    const axis = { stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const value = { stroke: color("--value"), width: 1.5, points: { show: false }, spanGaps: false };
    const aim = { stroke: color("--setpoint"), width: 1.5, dash: [5, 3], points: { show: false } };
    return {
      width,
      height,
      legend: { show: false },
      scales: { x: { time: true, auto: false }, y: { auto: false } },
      axes: [
        { ...axis, size: 38, space: labelSpace, values: TIME_LABELS },
        { ...axis, size: 52, values: (plot, splits, n, space, step) => shownAlong(splits, step) },
      ],
      series: [{}, { ...value }, { ...value }, { ...aim }, { ...aim }],
      bands: [{ series: [2, 1], fill: color("--band") }],
      cursor: { sync: { key: "time" }, drag: { x: false, y: false }, points: { show: false } },
      hooks: {
        ready: [(plot) => this.prepare(plot)],
        setCursor: [(plot) => this.readAt(plot)],
        drawAxes: [(plot) => this.drawLimits(plot)],
      },
    };
  }

  prepare(plot) {
    this.chosen = element("div", "chosen", plot.over);
    this.chosen.hidden = true;
    new Drag(plot.over, (x) => plot.posToVal(x, "x"), {
      dragging: (range, event) => {
        this.page.markChosen(range);
        // A mouse moves the cursor itself.
        if (event.pointerType !== "mouse") {
          const box = plot.over.getBoundingClientRect();
          plot.setCursor({ left: event.clientX - box.left, top: event.clientY - box.top }, true, true);
        }
      },
      left: () => this.page.markChosen(null),
      chosen: (range) => this.page.zoomTo(range),
    });
  }

  // The range that a drag chooses, on this chart or on another one.
  markChosen(range) {
    if (this.plot === null) return;
    this.chosen.hidden = range === null;
    if (range === null) return;
    const [left, right] = range.map((t) => this.plot.valToPos(t, "x"));
    this.chosen.style.left = `${left}px`;
    this.chosen.style.width = `${right - left}px`;
  }

  drawLimits(plot) {
    if (!this.device.limits) return;
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.strokeStyle = color("--alarm");
    ctx.setLineDash([2, 4]);
    for (const limit of this.device.limits) {
      if (limit === null) continue;
      const y = plot.valToPos(limit, "y", true);
      if (y < bbox.top || y > bbox.top + bbox.height) continue;
      ctx.beginPath();
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
      ctx.stroke();
    }
    ctx.restore();
  }

  readAt(plot) {
    const n = plot.cursor.idx;
    const nowhere = n === null || n === undefined || plot.cursor.left < 0;
    this.read.textContent = nowhere ? "" : this.reading(plot.data, n);
  }

  reading(data, n) {
    const [t, low, high, setLow, setHigh] = data.map((column) => column[n]);
    const span = (a, b) => (a === b ? shown(a) : `${shown(a)} to ${shown(b)}`);
    const aim = this.device.setpoint ? `, setpoint ${span(setLow, setHigh)}` : "";
    return `${clockTime(t)}: ${span(low, high)} ${this.device.unit}${aim}`;
  }

  // With the chart focused, the arrow keys move the cursor from point to point.
  pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || this.plot === null) return;
    const [t] = this.data;
    const [begin, end] = this.page.visible;
    const first = t.findIndex((moment) => moment >= begin);
    const last = t.findLastIndex((moment) => moment <= end);
    if (first < 0 || last < first) return;
    const now = this.page.reading === null ? null : this.indexAt(this.page.reading);
    const moves = {
      ArrowLeft: () => (now === null ? last : now - 1),
      ArrowRight: () => (now === null ? first : now + 1),
      Home: () => first,
      End: () => last,
    };
    if (event.key === "Escape") this.page.readAll(null);
    if (!(event.key in moves)) return;
    event.preventDefault();
    const n = Math.min(Math.max(moves[event.key](), first), last);
    this.page.readAll(t[n]);
    this.page.say(`${this.device.name}, ${this.reading(this.data, n)}`);
  }

  // The point at a time, or the one before it.
  indexAt(moment) {
    return Math.max(0, this.data[0].findLastIndex((t) => t <= moment));
  }

  // Put the cursor at a time; null takes it away.
  putCursor(moment) {
    if (this.plot === null) return;
    const [begin, end] = this.page.visible;
    const inside = moment !== null && moment >= begin && moment <= end;
    const left = inside ? this.plot.valToPos(moment, "x") : -10;
    this.plot.setCursor({ left, top: inside ? this.plot.over.clientHeight / 2 : -10 }, true, false);
  }

  // Colours of a chart are fixed when it is made.
  repaint() {
    if (this.plot !== null) {
      this.plot.destroy();
      this.plot = null;
    }
  }
}
