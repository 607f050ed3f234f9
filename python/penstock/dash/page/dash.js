// The page: what is visible, who draws it, and the keys.

import { AlarmLine } from "./alarm_line.js";
import { Card } from "./card.js";
import { openChange } from "./change_dialog.js";
import { Connection } from "./connection.js";
import { openCurves } from "./curves_dialog.js";
import { Layout } from "./layout.js";
import { curveName, Points } from "./points.js";
import { Tile } from "./tile.js";
import { TimeRange } from "./time_range.js";
import { openUnlock, prepareUnlock } from "./unlock_dialog.js";
import { chooseTimes, countFrom, dateAndTime, rangeText, TIME_SCALES } from "./times.js";
import { Digits, eventText, eventWord } from "./words.js";

const SPANS = [["1 min", 60], ["5 min", 300], ["15 min", 900], ["1 h", 3600], ["6 h", 21600], ["1 d", 86400], ["7 d", 604800]];
const MOST_EVENTS = 500;
const MOST_NOTES = 200;
const DIGITS_OF = 32; // newest points from which the number of digits is found
const MOST_CARDS = 12; // with more devices, the page shows tiles
const THEMES = ["system", "light", "dark"];
const at = (id) => document.getElementById(id);

// The date has a place of its own, which a narrow screen leaves out.
function showMoment(cell, t) {
  const [date, time] = dateAndTime(t);
  const when = document.createElement("span");
  when.className = "date";
  when.textContent = date && `${date} `;
  cell.replaceChildren(when, time);
}

class Page {
  constructor() {
    this.cards = new Map();
    this.tiles = new Map();
    this.devices = new Map(); // the server's descriptions, by name
    this.points = new Points();
    this.digits = new Map();
    this.notes = [];
    this.layout = null;
    this.tiled = null; // whether tiles are shown; null decides by the number of devices
    this.opened = new Set(); // the devices whose card is shown above the tiles
    this.alarms = new AlarmLine((names) => this.acknowledge(names));
    this.time = new TimeRange();
    this.asked = null; // the range of the last request to the server
    this.viewNumber = 0;
    this.bucket = 1; // seconds between two points
    this.clock = 0; // the server's clock minus this machine's, in seconds
    this.facts = null; // the last message of type "state"
    this.hello = null; // the last message of type "hello"
    this.chosen = false; // whether a person has changed the range
    this.drawing = 0;
    this.reading = null; // the time at which the keyboard cursor is
    this.marked = null; // the range of the current drag
    this.connection = new Connection({
      // The server sends its whole log again.
      opened: () => {
        at("events").replaceChildren();
        this.notes = [];
      },
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
    const told = JSON.stringify([message.devices, message.layout]);
    if (told !== this.told) {
      this.told = told;
      this.devices = new Map(message.devices.map((device) => [device.name, device]));
      this.layout = new Layout(message.title, message.layout);
      this.makeCards();
    }
    for (const card of this.cards.values()) this.setControls(card);
    at("unlock").dataset.control = message.control;
    this.askView();
  }

  setControls(card) {
    const device = card.device && this.devices.get(card.device.name);
    card.setControls(device && this.hello.control === "granted" ? device.abilities : []);
  }

  makeCards() {
    for (const card of this.cards.values()) {
      card.repaint();
      this.watcher.unobserve(card.root);
    }
    for (const tile of this.tiles.values()) this.watcher.unobserve(tile.root);
    const tiled = this.tiled ?? this.devices.size > MOST_CARDS;
    const plans = this.layout.plans(this.devices)
      .filter(([name, , device]) => device === null || !tiled || this.opened.has(name));
    this.cards = new Map(plans.map(([name, plan, device]) => [name, new Card(plan, device, this)]));
    this.tiles = new Map(tiled ? [...this.devices.values()].map((device) => [device.name, new Tile(device, this)]) : []);
    // Few cards have few and large charts, in rows of the same length.
    const few = { 1: [1, 1], 2: [2, 1], 3: [3, 1], 4: [2, 2], 5: [3, 2], 6: [3, 2] }[this.cards.size];
    at("devices").dataset.columns = few ? few[0] : "many";
    at("devices").dataset.rows = few ? (tiled ? 2 : few[1]) : "many";
    at("devices").replaceChildren(...[...this.cards.values()].map((card) => card.root));
    at("devices").hidden = this.cards.size === 0 && tiled;
    at("tiles").replaceChildren(...[...this.tiles.values()].map((tile) => tile.root));
    at("tiles").hidden = !tiled;
    for (const tile of this.tiles.values()) tile.root.setAttribute("aria-pressed", String(this.opened.has(tile.device.name)));
    at("tiled").setAttribute("aria-pressed", String(tiled));
    at("proposed").disabled = !this.layout.isOwn;
    for (const shown of this.shownParts()) this.watcher.observe(shown.root);
    if (this.facts !== null) for (const shown of this.shownParts()) shown.showState(this.facts);
  }

  *shownParts() {
    yield* this.cards.values();
    yield* this.tiles.values();
  }

  // After a change of the layout by a person.
  arrange() {
    this.makeCards();
    for (const card of this.cards.values()) this.setControls(card);
    this.askView();
  }

  toggleCard(name) {
    if (this.opened.has(name)) this.opened.delete(name);
    else this.opened.add(name);
    this.arrange();
    this.cards.get(name)?.root.scrollIntoView({ block: "nearest" });
  }

  chooseCurves(card) {
    const number = card.device ? null : Number([...this.cards].find(([, each]) => each === card)[0].split(" ")[1]) - 1;
    openCurves(this, { title: card.title, plan: card.plan, own: card.device?.name ?? "", removable: number !== null }, (chosen) => {
      if (card.device) this.layout.setDevice(card.device.name, chosen?.curves.length ? chosen : null);
      else this.layout.setChart(number, chosen === "remove" || !chosen.curves.length ? null : chosen);
      this.arrange();
    });
  }

  newChart() {
    const plan = { title: "", curves: [], log: { left: false, right: false } };
    openCurves(this, { title: "", plan, own: "", removable: false }, (chosen) => {
      if (!chosen.curves.length) return;
      this.layout.setChart(this.layout.charts.length, chosen);
      this.arrange();
    });
  }

  showLayout() {
    at("layout-text").value = this.layout.asToml(this.devices) || "# every device has its default chart";
    at("layout").showModal();
    at("layout-text").select();
  }

  // The newest value of a quantity.
  valueOf(device, key) {
    const n = this.devices.get(device)?.quantities.findIndex((quantity) => quantity.key === key) ?? -1;
    return n < 0 ? null : (this.facts?.devices[device]?.values[n] ?? null);
  }

  // The digits that an instrument sends of a quantity.
  digitsOf(device, key) {
    const name = curveName(device, key);
    if (!this.digits.has(name)) this.digits.set(name, new Digits());
    return this.digits.get(name);
  }

  seeDigits(devices) {
    for (const [name, state] of Object.entries(devices)) {
      const quantities = this.devices.get(name)?.quantities ?? [];
      quantities.forEach(({ key }, n) => this.digitsOf(name, key).see(state.values[n]));
    }
  }

  async acknowledge(names) {
    if (this.hello?.control === "granted") {
      for (const device of names) await this.connection.ask({ type: "acknowledge", device, confirmed: true });
      return;
    }
    // Without the token, a person acknowledges for this browser only.
    this.alarms.seeHere(this.facts, names);
    this.showState();
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
    at("acknowledge").hidden = true;
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
    if (countFrom(message.first)) this.showTimes();
    if (first && message.last !== null && !this.chosen && !message.live) this.choose({ all: true });
    if (this.time.outgrown(this.asked)) this.askView();
    this.showTools();
    this.seeDigits(message.devices);
    this.addEvents(message.events);
    this.showState();
    this.drawSoon();
    const text = message.ended || (message.live ? "live" : "recorded");
    this.setConnection(message.live ? "live" : "ended", text);
    at("connection").dataset.seq = message.seq;
    at("connection").dataset.samples = Object.values(message.devices).reduce((n, d) => n + d.samples, 0);
  }

  showState() {
    this.alarms.apply(this.facts);
    for (const shown of this.shownParts()) shown.showState(this.facts);
    this.alarmText = this.alarms.show(this.facts);
    this.showTitle();
  }

  takePoints(message) {
    if (message.view !== this.viewNumber) return;
    for (const curve of message.curves) {
      this.points.take(curve);
      const digits = this.digitsOf(curve.device, curve.key);
      // The extremes of a bin are samples, so their digits are an instrument's.
      for (const value of curve.columns[1].slice(-DIGITS_OF)) digits.see(value);
    }
  }

  // The title has the alarms, so that the browser shows them while another tab is in front.
  showTitle() {
    const parts = [this.alarmText, this.hello?.title, "Penstock"];
    document.title = parts.filter(Boolean).join(" – ");
  }

  addEvents(events) {
    if (!events.length) return;
    const body = at("events");
    for (const [t, device, kind, message] of events) {
      const row = document.createElement("tr");
      if (kind === "alarm" || kind === "error" || kind === "connection_lost") row.className = "alarm";
      const aim = this.devices.get(device);
      const unit = aim?.quantities.find((quantity) => quantity.key === (aim.setpoint ?? aim.main))?.unit;
      const text = eventText(kind, message, unit);
      if (kind === "note") this.notes.push({ t, device, text: message });
      showMoment(row.insertCell(), t);
      for (const cell of [device, eventWord(kind), text]) row.insertCell().textContent = cell;
      // The column fits the longest word, up to 13 letters, because a screen may be narrow.
      const longest = Math.max(...device.split(" ").map((word) => word.length));
      row.cells[1].style.minWidth = `${Math.min(longest, 13) + 3}ch`;
      row.cells[0].title = new Date(t * 1000).toISOString();
      row.cells[3].title = message;
      row.dataset.t = t;
      // The newest event is on top. Events may arrive out of order: alarms of a recording on disk
      // are found before its events are read.
      let below = body.rows[0];
      while (below && Number(below.dataset.t) > t) below = below.nextElementSibling;
      body.insertBefore(row, below ?? null);
    }
    while (body.rows.length > MOST_EVENTS) body.deleteRow(-1);
    if (this.notes.length > MOST_NOTES) this.notes.splice(0, this.notes.length - MOST_NOTES);
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
      const part = [...this.shownParts()].find((each) => each.root === target);
      if (!part) continue;
      more ||= isIntersecting && !part.visible;
      part.visible = isIntersecting;
    }
    if (more) this.askView();
  }

  // Ask the server for the visible range after 30 ms, so that several changes make one request.
  askView() {
    clearTimeout(this.asking);
    this.asking = setTimeout(() => this.sendView(), 30);
  }

  sendView() {
    const parts = [...this.shownParts()].filter((part) => part.visible);
    if (!this.connection.isOpen || !parts.length) return;
    const curves = new Map(parts.flatMap((part) => part.curves).map(({ device, key }) => [curveName(device, key), [device, key]]));
    // One bin for each pixel of the widest part; the server sends one or two points for a bin.
    const widths = parts.map((part) => (part.chartRoot ? part.chartRoot.clientWidth - 60 : part.root.clientWidth));
    const width = Math.max(50, Math.round(Math.max(...widths)));
    this.takeTime();
    this.asked = this.time.asked;
    this.bucket = (this.asked.span ?? this.asked.to - this.asked.from) / width;
    this.viewNumber++;
    this.points.clear();
    this.connection.send({ type: "view", id: this.viewNumber, curves: [...curves.values()], width, ...this.asked });
  }

  // Draw once for each state message, which follows the points of its tick: drawing takes most of
  // the page's time.
  drawSoon() {
    cancelAnimationFrame(this.drawing);
    this.drawing = requestAnimationFrame(() => this.draw());
  }

  draw() {
    if (document.hidden) return;
    const range = this.visible;
    at("range").textContent = `${rangeText(range)}${this.time.paused ? " (paused)" : ""}`;
    at("csv").href = `csv?${this.csvQuery(range)}`;
    if (this.time.fixed === null && this.asked?.span !== undefined) this.points.forgetBefore(range[0]);
    for (const tile of this.tiles.values()) tile.draw(range);
    for (const card of this.cards.values()) {
      card.draw(range, this.bucket);
      if (this.marked !== null) card.markChosen(this.marked);
      if (this.reading !== null) card.putCursor(this.reading);
    }
  }

  // The curves of all cards, in their order. Without cards the query names no curve, and the server
  // sends those that it proposes.
  csvQuery([from, to]) {
    const query = new URLSearchParams({ from, to });
    const seen = new Set();
    for (const { device, key } of [...this.cards.values()].flatMap((card) => card.curves)) {
      if (seen.has(curveName(device, key))) continue;
      seen.add(curveName(device, key));
      query.append("device", device);
      query.append("quantity", key);
    }
    return query;
  }

  // Put the keyboard cursor of all charts at `moment`; null removes it. With `move` false the
  // cursors stay where they are, because the pointer moves them from now on.
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
    const menu = (id, action) => {
      at(id).onclick = () => {
        at("view").open = false;
        action();
      };
    };
    menu("new-chart", () => this.newChart());
    menu("tiled", () => {
      this.tiled = !(this.tiled ?? this.devices.size > MOST_CARDS);
      this.arrange();
    });
    this.setTimes(localStorage.getItem("times"));
    menu("times", () => this.setTimes(TIME_SCALES[(TIME_SCALES.indexOf(this.times) + 1) % TIME_SCALES.length]));
    menu("show-layout", () => this.showLayout());
    menu("proposed", () => {
      this.layout.forget();
      this.arrange();
    });
    menu("print", () => print());
    at("layout-close").onclick = () => at("layout").close();
    addEventListener("click", (event) => {
      if (!event.target.closest("#view")) at("view").open = false;
    });
    // Print with the light theme: paper is white.
    const paper = (dark) => {
      document.documentElement.dataset.theme = dark ? "dark" : "light";
      for (const card of this.cards.values()) card.repaint();
      this.draw();
    };
    addEventListener("beforeprint", () => paper(false));
    addEventListener("afterprint", () => this.setTheme(this.theme));
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

  setTimes(name) {
    this.times = chooseTimes(name);
    localStorage.setItem("times", this.times);
    at("times-name").textContent = this.times;
    this.showTimes();
  }

  // Tell all times anew.
  showTimes() {
    for (const card of this.cards.values()) card.repaint();
    for (const row of at("events").rows) showMoment(row.cells[0], Number(row.dataset.t));
    if (this.facts !== null) this.showState();
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
