// A tile: the newest value of a device and a small curve, for screens with many devices.

import { color } from "./chart.js";
import { element } from "./card.js";
import { extremes } from "./points.js";
import { alarmWord, shown } from "./words.js";

export class Tile {
  constructor(device, page) {
    this.device = device;
    this.page = page;
    this.visible = false;
    this.root = document.createElement("button");
    this.root.type = "button";
    this.root.className = "tile";
    this.root.dataset.tile = device.name;
    this.root.onclick = () => page.toggleCard(device.name);
    element("span", "name", this.root, device.name);
    const line = element("span", "line", this.root);
    this.value = element("span", "value", line, "–");
    const unit = device.quantities.find((quantity) => quantity.key === device.main)?.unit ?? "";
    element("span", "unit", line, ` ${unit}`);
    this.canvas = document.createElement("canvas");
    this.root.append(this.canvas);
    this.mark = element("span", "mark", this.root);
  }

  get curves() {
    return this.device.main === null ? [] : [{ device: this.device.name, key: this.device.main }];
  }

  showState(facts) {
    const state = facts.devices[this.device.name];
    if (!state) return;
    const { main, name } = this.device;
    this.value.textContent = main === null ? "–" : shown(this.page.valueOf(name, main), this.page.digitsOf(name, main));
    const alarms = state.alarms.filter(([kind]) => kind !== "gaps");
    const worst = alarms.find(([, , , seen]) => !seen) ?? alarms[0] ?? state.alarms[0];
    const text = worst ? alarmWord(worst[0]) : state.status.split(",")[0] || (state.t === null ? "waiting" : "ok");
    if (this.mark.textContent !== text) this.mark.textContent = text;
    const bad = alarms.some(([, , , seen]) => !seen);
    this.mark.className = `mark${bad ? " bad" : alarms.length ? " seen" : worst || state.status ? "" : " ok"}`;
    this.root.classList.toggle("alarm", bad);
    this.root.setAttribute("aria-label", `${name}: ${this.value.textContent}, ${text}`);
  }

  draw([begin, end]) {
    if (!this.visible || this.device.main === null) return;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const ratio = devicePixelRatio;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    const ctx = this.canvas.getContext("2d");
    const columns = this.page.points.of(this.device.name, this.device.main);
    const found = extremes(columns, begin, end);
    if (found === null) return;
    const [low, high] = found;
    const [t, lows, highs] = columns;
    const span = high - low || Math.abs(high) || 1;
    const toX = (moment) => ((moment - begin) / (end - begin)) * width;
    const toY = (value) => (high === low ? height / 2 : 2 + (height - 4) * (1 - (value - low) / span));
    ctx.scale(ratio, ratio);
    ctx.strokeStyle = color("--value");
    ctx.lineWidth = 1.25;
    ctx.beginPath();
    let line = false;
    for (let n = 0; n < t.length; n++) {
      if (lows[n] === null) {
        line = false;
        continue;
      }
      const x = toX(t[n]);
      // A point without neighbours is a dot.
      if (!line && (n + 1 >= t.length || lows[n + 1] === null)) ctx.rect(x - 0.5, toY(highs[n]) - 0.5, 1, 1);
      if (line) ctx.lineTo(x, toY(highs[n]));
      else ctx.moveTo(x, toY(highs[n]));
      if (lows[n] !== highs[n]) ctx.lineTo(x, toY(lows[n]));
      line = true;
    }
    ctx.stroke();
  }
}
