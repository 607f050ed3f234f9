// One card: the newest values and the chart of a device, or of chosen curves.

import { Chart } from "./chart.js";
import { alarmWord, Digits, shown } from "./words.js";

const COLORS = ["--value", "--curve-2", "--curve-3", "--curve-4", "--curve-5", "--curve-6"];

export function element(tag, className, parent, text = "") {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.textContent = text;
  parent.append(made);
  return made;
}

export class Card {
  // `plan` is {title, curves: [{device, key, side}], log: {left, right}}. `device` is the server's
  // description of the device; null for a card of chosen curves.
  constructor(plan, device, page) {
    this.plan = plan;
    this.device = device;
    this.page = page;
    this.state = null;
    this.visible = false;
    this.curves = this.describeCurves();
    this.root = document.createElement("article");
    this.root.className = "card";
    if (device) this.root.dataset.device = device.name;
    this.makeHead();
    this.chartRoot = element("div", "chart", this.root);
    this.chartRoot.setAttribute("role", "img");
    this.chartRoot.tabIndex = 0;
    this.chartRoot.setAttribute("aria-describedby", "chart-keys");
    this.chartRoot.addEventListener("keydown", (event) => this.pressed(event));
    this.chartRoot.addEventListener("blur", () => page.readAll(null));
    this.chartRoot.addEventListener("pointermove", () => page.readAll(null, false));
    const foot = element("div", "foot", this.root);
    this.readLine = element("div", "read", foot);
    this.counts = element("div", "counts", foot);
    this.chart = new Chart(this.chartRoot, this, this.curves, plan.log, this.limits());
    this.setControls([]);
  }

  get title() {
    return this.plan.title || this.device?.name || this.curves.map((curve) => curve.device).filter((name, n, all) => all.indexOf(name) === n).join(", ");
  }

  // The curves of the plan, with the server's descriptions and access to the newest state.
  describeCurves() {
    let painted = 0;
    return this.plan.curves.map(({ device, key, side }) => {
      const found = this.page.devices.get(device);
      const quantity = found.quantities.find((each) => each.key === key) || { label: key, unit: "", field: key };
      const isAim = key === found.setpoint;
      const digits = this.page.digitsOf(device, key);
      const own = this.plan.curves.some((other) => other.device === device && other.key === found.main);
      const dashed = isAim && own && this.device !== null;
      return {
        device,
        key,
        side,
        digits,
        dashed,
        isAim,
        unit: quantity.unit,
        field: quantity.field,
        color: dashed ? "--setpoint" : COLORS[painted++ % COLORS.length],
        name: this.device?.name === device ? quantity.label : `${device} ${quantity.label}`,
        period: () => this.page.facts?.devices[device]?.period || 0,
        value: () => this.page.valueOf(device, key),
      };
    });
  }

  // The limits of the curves' fields; a limit without a field belongs to the main quantity.
  limits() {
    const found = [];
    for (const curve of this.curves) {
      const device = this.page.devices.get(curve.device);
      for (const { field, low, high } of device.limits) {
        const isOf = field === null ? curve.key === device.main : curve.field === field;
        if (isOf) for (const value of [low, high]) found.push({ value, side: curve.side });
      }
    }
    return found;
  }

  makeHead() {
    const top = element("div", "top", this.root);
    const name = element("h2", "", top, this.title);
    const { device } = this;
    const quantity = this.curves[0] && device ? this.curves[0].name : "";
    const about = device ? [device.unit_id && `unit ${device.unit_id}`, quantity].filter(Boolean) : [];
    element("span", "about", name, about.length ? ` ${about.join(", ")}` : "");
    this.root.setAttribute("aria-label", device ? `${device.name}, ${quantity}` : this.title);
    const tools = element("div", "buttons", top);
    this.buttons = element("div", "buttons", tools);
    const choose = element("button", "plain", tools, "Curves…");
    choose.type = "button";
    choose.setAttribute("aria-label", `Curves of ${this.title}`);
    choose.onclick = () => this.page.chooseCurves(this);
    const line = element("div", "now", this.root);
    this.values = [];
    const simple = device !== null && this.curves.length > 0;
    if (simple) {
      this.value = element("span", "value", line, "–");
      element("span", "unit", line, ` ${this.curves[0].unit} `);
      this.values.push([this.curves[0], this.value, ""]);
      this.curves[0].says = "";
    }
    for (const curve of this.curves.slice(simple ? 1 : 0)) {
      if (curve.dashed) {
        const aim = element("span", "aim", line);
        curve.says = "setpoint";
        this.values.push([curve, aim, "setpoint "]);
        continue;
      }
      curve.says = curve.name;
      const entry = element("span", "entry", line);
      const swatch = element("span", "swatch", entry);
      swatch.style.setProperty("--swatch", `var(${curve.color})`);
      element("span", "about", entry, `${curve.name} `);
      const value = element("b", "", entry);
      element("span", "unit", entry, curve.unit ? ` ${curve.unit}` : "");
      this.values.push([curve, value, ""]);
    }
    const status = element("div", "status", this.root);
    this.marks = element("div", "marks", status);
    this.error = element("div", "error", status);
  }

  setControls(abilities) {
    this.buttons.replaceChildren();
    if (!this.device) return;
    for (const ability of abilities) {
      const label = ability === "setpoint" ? "Setpoint…" : "Gas…";
      const button = element("button", "", this.buttons, label);
      button.type = "button";
      button.setAttribute("aria-label", `${label.slice(0, -1)} of ${this.device.name}`);
      button.onclick = () => this.page.change(this, ability);
    }
  }

  // For the dialog that changes the setpoint.
  get setpoint() {
    return this.device.setpoint === null ? null : this.page.valueOf(this.device.name, this.device.setpoint);
  }

  get unit() {
    const found = this.device.quantities.find((quantity) => quantity.key === (this.device.setpoint ?? this.device.main));
    return found?.unit ?? "";
  }

  // Show the newest state of the page.
  showState(facts) {
    for (const [curve, where, before] of this.values) where.textContent = before + shown(curve.value(), curve.digits);
    const names = this.plan.curves.map((curve) => curve.device).filter((name, n, all) => all.indexOf(name) === n);
    if (this.device && !names.length) names.push(this.device.name);
    const states = names.map((name) => [name, facts.devices[name]]).filter(([, state]) => state);
    if (this.device) this.state = facts.devices[this.device.name];
    const old = states.some(([, state]) => state.alarms.some(([kind]) => kind === "failing" || kind === "silent"));
    this.value?.classList.toggle("old", old);
    const marks = [];
    for (const [name, state] of states) {
      const of = this.device ? "" : `${name}: `;
      for (const [kind, text, , seen] of state.alarms) {
        marks.push([of + alarmWord(kind), `mark${kind === "gaps" ? "" : seen ? " seen" : " bad"}`, text]);
      }
      if (this.device) for (const code of state.status.split(",").filter(Boolean)) marks.push([code, "mark", ""]);
    }
    if (!marks.length) marks.push([states.some(([, state]) => state.t !== null) ? "ok" : "waiting", "mark ok", ""]);
    const key = JSON.stringify(marks);
    if (key !== this.marksKey) {
      this.marksKey = key;
      this.marks.replaceChildren();
      for (const [text, className, title] of marks) element("span", className, this.marks, text).title = title;
    }
    const alarms = states.flatMap(([, state]) => state.alarms).filter(([kind]) => kind !== "gaps");
    this.root.classList.toggle("alarm", alarms.some(([, , , seen]) => !seen));
    this.root.classList.toggle("seen", alarms.length > 0 && alarms.every(([, , , seen]) => seen));
    const error = states.map(([, state]) => state.error).find(Boolean) || "";
    this.error.textContent = error;
    this.error.title = error;
    const sum = (what) => states.reduce((n, [, state]) => n + state[what], 0);
    const counts = [`${sum("samples")} samples`];
    if (sum("errors")) counts.push(`${sum("errors")} failed`);
    if (sum("missed")) counts.push(`${sum("missed")} missed`);
    this.counts.textContent = counts.join(", ");
  }

  get plot() {
    return this.chart.plot;
  }

  get data() {
    return this.chart.data;
  }

  draw(range, bucket) {
    if (!this.visible) return;
    this.chart.draw(this.page.points, range, bucket);
    const found = this.chart.range;
    const unit = this.curves[0]?.unit ?? "";
    this.chartRoot.setAttribute(
      "aria-label",
      found
        ? `Chart of ${this.title}: from ${shown(found[0], this.curves[0].digits)} to ${shown(found[1], this.curves[0].digits)} ${unit}`
        : `Chart of ${this.title}: no samples in this range`,
    );
  }

  // Notes for the devices of this card, and for the whole recording.
  notes() {
    const names = new Set(this.curves.map((curve) => curve.device));
    return this.page.notes.filter(({ device }) => !device || names.has(device));
  }

  read() {
    this.readLine.textContent = this.chart.readingAtCursor();
  }

  markChosen(range) {
    this.chart.markChosen(range);
  }

  // With the chart focused, the arrow keys move the cursor from point to point.
  pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || this.plot === null) return;
    const [t] = this.data;
    const [begin, end] = this.page.visible;
    const first = t.findIndex((moment) => moment >= begin);
    const last = t.findLastIndex((moment) => moment <= end);
    if (first < 0 || last < first) return;
    const now = this.page.reading === null ? null : this.chart.indexAt(this.page.reading);
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
    this.page.say(`${this.title}, ${this.chart.reading(n)}`);
  }

  putCursor(moment) {
    this.chart.putCursor(moment);
  }

  repaint() {
    this.chart.destroy();
  }
}
