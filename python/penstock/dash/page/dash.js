// The page: what is visible, who draws it, and the keys.

import { Card } from "./card.js";
import { openChange } from "./change_dialog.js";
import { Connection } from "./connection.js";
import { TimeRange } from "./time_range.js";
import { openUnlock, prepareUnlock } from "./unlock_dialog.js";
import { alarmWord, dateAndTime, eventText, eventWord, zoneAt } from "./words.js";

const SPANS = [["1 min", 60], ["5 min", 300], ["15 min", 900], ["1 h", 3600], ["6 h", 21600], ["1 d", 86400], ["7 d", 604800]];
const MOST_EVENTS = 500;
const THEMES = ["system", "light", "dark"];
const at = (id) => document.getElementById(id);

class Page {
  constructor() {
    this.cards = new Map();
    this.time = new TimeRange();
    this.asked = null; // the range that the server was asked for
    this.viewNumber = 0;
    this.bucket = 1;
    this.clock = 0; // the server's, minus this machine's
    this.facts = null; // the last state
    this.hello = null;
    this.chosen = false;
    this.drawing = 0;
    this.reading = null; // the time of the cursor that keys have moved
    this.marked = null; // the range of a drag under way
    this.connection = new Connection({
      // The server sends its whole log again.
      opened: () => at("events").replaceChildren(),
      closed: () => this.lose(),
      hello: (message) => this.greet(message),
      state: (message) => this.takeState(message),
      points: (message) => this.takePoints(message),
    });
    this.watcher = new IntersectionObserver((entries) => this.sawCards(entries), { rootMargin: "200px" });
    new ResizeObserver(() => this.askView()).observe(at("devices"));
    this.makeTools();
    this.connection.open();
  }

  // -- the connection ----------------------------------------------------------------------

  greet(message) {
    this.hello = message;
    at("title").textContent = message.title;
    at("title").title = message.title;
    this.showTitle();
    at("version").textContent = `Penstock ${message.version}`;
    at("csv").hidden = false;
    const control = at("control");
    control.hidden = message.control === "none";
    at("unlocked").hidden = message.control !== "granted";
    control.setAttribute("aria-label", message.control === "granted" ? "Control: unlocked" : "Control");
    control.setAttribute("aria-pressed", String(message.control === "granted"));
    const same = JSON.stringify(message.devices) === this.devicesKey;
    this.devicesKey = JSON.stringify(message.devices);
    if (!same) this.makeCards(message.devices);
    for (const card of this.cards.values()) {
      card.setControls(message.control === "granted" ? card.device.abilities : []);
    }
    at("unlock").dataset.control = message.control;
    this.askView();
  }

  makeCards(devices) {
    for (const card of this.cards.values()) {
      card.repaint();
      this.watcher.unobserve(card.root);
    }
    this.cards = new Map(devices.map((device) => [device.name, new Card(device, this)]));
    // Few devices have few and large charts, in rows of the same length.
    const few = { 1: [1, 1], 2: [2, 1], 3: [3, 1], 4: [2, 2], 5: [3, 2], 6: [3, 2] }[devices.length];
    at("devices").dataset.columns = few ? few[0] : "many";
    at("devices").dataset.rows = few ? few[1] : "many";
    at("devices").replaceChildren(...[...this.cards.values()].map((card) => card.root));
    for (const card of this.cards.values()) this.watcher.observe(card.root);
  }

  // The page of an ended recording keeps what it shows. A new run at the same address replaces it.
  lose() {
    if (!this.facts?.ended) {
      this.setConnection("lost", "connection lost, trying again");
      return;
    }
    this.setConnection("ended", `${this.facts.ended}; this page keeps what it shows`);
    at("csv").hidden = true;
    at("control").hidden = true;
    for (const card of this.cards.values()) card.setControls([]);
  }

  setConnection(state, text) {
    at("connection").dataset.state = state;
    at("connection").textContent = text;
  }

  takeState(message) {
    const first = this.facts === null || this.facts.last === null;
    this.facts = message;
    this.clock = message.now - Date.now() / 1000;
    this.takeTime();
    if (first && message.last !== null && !this.chosen && !message.live) this.choose({ all: true });
    if (this.time.outgrown(this.asked)) this.askView();
    this.showTools();
    for (const [name, state] of Object.entries(message.devices)) {
      this.cards.get(name)?.setState(state);
    }
    this.addEvents(message.events);
    this.drawSoon();
    this.showAlarms(message.devices);
    const text = message.ended || (message.live ? "live" : "recorded");
    this.setConnection(message.live ? "live" : "ended", text);
    at("connection").dataset.seq = message.seq;
    at("connection").dataset.samples = Object.values(message.devices).reduce((n, d) => n + d.samples, 0);
  }

  takePoints(message) {
    if (message.view !== this.viewNumber) return;
    for (const { name, from, columns } of message.devices) this.cards.get(name)?.take(from, columns);
  }

  showAlarms(devices) {
    const found = Object.entries(devices)
      .filter(([, state]) => state.alarms.some((word) => word !== "gaps"))
      .map(([name, state]) => `${name}: ${state.alarms.map(alarmWord).join(", ")}`);
    const text = found.length ? `Alarm: ${found.join("; ")}` : "";
    // Written only when it changes, because a screen reader speaks it each time.
    if (at("alarms").textContent !== text) at("alarms").textContent = text;
    at("alarms").hidden = !text;
    this.showTitle();
  }

  // With the alarms, which are seen also where the page is not.
  showTitle() {
    const parts = [at("alarms").textContent, this.hello?.title, "Penstock"];
    document.title = parts.filter(Boolean).join(" – ");
  }

  addEvents(events) {
    if (!events.length) return;
    const body = at("events");
    for (const [t, device, kind, message] of events) {
      const row = document.createElement("tr");
      if (kind === "alarm" || kind === "error" || kind === "connection_lost") row.className = "alarm";
      const text = eventText(kind, message, this.cards.get(device)?.device.unit);
      const [date, time] = dateAndTime(t).split(" ");
      const when = document.createElement("span");
      when.className = "date";
      when.textContent = `${date} `;
      row.insertCell().append(when, time);
      for (const cell of [device, eventWord(kind), text]) row.insertCell().textContent = cell;
      // Room for the longest word, as far as a narrow screen has it.
      const longest = Math.max(...device.split(" ").map((word) => word.length));
      row.cells[1].style.minWidth = `${Math.min(longest, 13) + 3}ch`;
      row.cells[0].title = new Date(t * 1000).toISOString();
      row.cells[3].title = message;
      body.prepend(row);
    }
    while (body.rows.length > MOST_EVENTS) body.deleteRow(-1);
  }

  // -- what is visible ---------------------------------------------------------------------

  get visible() {
    this.takeTime();
    return this.time.visible;
  }

  takeTime() {
    const { first = null, last = null, live = true } = this.facts || {};
    this.time.setExtent({ first, last, live, now: Date.now() / 1000 + this.clock });
  }

  sawCards(entries) {
    let more = false;
    for (const { target, isIntersecting } of entries) {
      const card = this.cards.get(target.dataset.device);
      if (!card || card.root !== target) continue;
      more ||= isIntersecting && !card.visible;
      card.visible = isIntersecting;
    }
    if (more) this.askView();
  }

  // Ask the server for the visible range, soon: several reasons may come together.
  askView() {
    clearTimeout(this.asking);
    this.asking = setTimeout(() => this.sendView(), 30);
  }

  sendView() {
    const devices = [...this.cards.values()].filter((card) => card.visible);
    if (!this.connection.isOpen || !devices.length) return;
    const width = Math.max(50, Math.round((devices[0].chart.clientWidth - 60) * Math.min(devicePixelRatio, 2)));
    this.takeTime();
    this.asked = this.time.asked;
    this.bucket = (this.asked.span ?? this.asked.to - this.asked.from) / width;
    this.viewNumber++;
    this.connection.send({
      type: "view", id: this.viewNumber, devices: devices.map((card) => card.device.name), width, ...this.asked,
    });
  }

  // Once for each state, which follows the points of its tick: drawing is most of the page's work.
  drawSoon() {
    cancelAnimationFrame(this.drawing);
    this.drawing = requestAnimationFrame(() => this.draw());
  }

  draw() {
    if (document.hidden) return;
    const range = this.visible;
    at("range").textContent = `${dateAndTime(range[0])} to ${dateAndTime(range[1])} (${zoneAt(range[1])})${this.time.paused ? " (paused)" : ""}`;
    const csv = new URLSearchParams({ from: range[0], to: range[1] });
    at("csv").href = `csv?${csv}`;
    for (const card of this.cards.values()) {
      if (this.time.fixed === null && this.asked?.span !== undefined) card.forgetBefore(range[0]);
      card.draw(range, this.bucket);
      if (this.marked !== null) card.markChosen(this.marked);
      if (this.reading !== null) card.putCursor(this.reading);
    }
  }

  // Read all charts at a time, by keyboard. A pointer takes the cursors over where they are.
  readAll(moment, move = true) {
    if (moment === null && this.reading === null) return;
    this.reading = moment;
    if (move) for (const card of this.cards.values()) card.putCursor(moment);
  }

  // For a screen reader.
  say(text) {
    at("said").textContent = text;
  }

  markChosen(range) {
    this.marked = range;
    for (const card of this.cards.values()) card.markChosen(range);
  }

  // -- zoom and pause ----------------------------------------------------------------------

  // After each change of the range by a person.
  moved() {
    this.chosen = true;
    this.showTools();
    this.askView();
    this.draw();
  }

  // A span up to now, or everything.
  choose({ span = this.time.span, all = false }) {
    this.takeTime();
    this.time.choose({ span, all });
    this.moved();
  }

  zoomTo(range) {
    this.time.fix(range);
    this.moved();
  }

  zoomBy(factor) {
    this.takeTime();
    this.time.zoom(factor);
    this.moved();
  }

  shift(part) {
    this.takeTime();
    if (this.time.shift(part)) this.moved();
  }

  reset() {
    this.takeTime();
    this.time.reset();
    this.moved();
  }

  togglePause() {
    this.takeTime();
    if (!this.time.live) return;
    if (this.time.paused) this.time.goOn();
    else this.time.fix(this.time.visible);
    this.moved();
  }

  showTools() {
    const { span, all, fixed, live, paused } = this.time;
    at("pause").hidden = !live;
    at("pause").setAttribute("aria-pressed", String(paused));
    at("pause").textContent = paused ? "Go on" : "Pause";
    for (const button of at("spans").children) {
      const shown = button.dataset.all ? all : !all && Number(button.dataset.span) === span;
      button.setAttribute("aria-pressed", String(fixed === null && shown));
    }
  }

  // -- tools -------------------------------------------------------------------------------

  makeTools() {
    for (const [label, span] of SPANS) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = label;
      button.dataset.span = span;
      button.onclick = () => this.choose({ span });
      at("spans").append(button);
    }
    const all = document.createElement("button");
    all.type = "button";
    all.textContent = "All";
    all.dataset.all = "true";
    all.onclick = () => this.choose({ all: true });
    at("spans").append(all);
    at("pause").onclick = () => this.togglePause();
    at("zoom-in").onclick = () => this.zoomBy(0.5);
    at("zoom-out").onclick = () => this.zoomBy(2);
    at("earlier").onclick = () => this.shift(-0.5);
    at("later").onclick = () => this.shift(0.5);
    at("devices").ondblclick = (event) => {
      if (event.target.closest(".chart")) this.reset();
    };
    this.showTools();
    this.setTheme(localStorage.getItem("theme") || "system");
    at("theme").onclick = () => this.setTheme(THEMES[(THEMES.indexOf(this.theme) + 1) % THEMES.length]);
    matchMedia("(prefers-color-scheme: dark)").onchange = () => this.setTheme(this.theme);
    at("control").onclick = openUnlock;
    prepareUnlock(this.connection);
    addEventListener("keydown", (event) => this.pressed(event));
    document.addEventListener("visibilitychange", () => this.draw());
  }

  setTheme(theme) {
    this.theme = THEMES.includes(theme) ? theme : "system";
    localStorage.setItem("theme", this.theme);
    const dark = this.theme === "system" ? matchMedia("(prefers-color-scheme: dark)").matches : this.theme === "dark";
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    at("theme-name").textContent = this.theme;
    at("theme").setAttribute("aria-label", `Theme: ${this.theme}`);
    for (const card of this.cards.values()) card.repaint();
    this.draw();
  }

  pressed(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, select, dialog")) return;
    const actions = {
      "+": () => this.zoomBy(0.5),
      "=": () => this.zoomBy(0.5),
      "-": () => this.zoomBy(2),
      ArrowLeft: () => this.shift(-0.5),
      ArrowRight: () => this.shift(0.5),
      0: () => this.reset(),
      p: () => this.togglePause(),
    };
    const action = actions[event.key] || actions[event.key.toLowerCase()];
    if (!action || (event.key.startsWith("Arrow") && event.target.closest(".scroll"))) return;
    event.preventDefault();
    action();
  }

  change(card, ability) {
    openChange(this.connection, card, ability);
  }
}

// For the browser's console and for tests.
window.penstock = new Page();
