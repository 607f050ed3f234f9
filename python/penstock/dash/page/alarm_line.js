// The line of alarms below the header. It is always there, so an alarm moves nothing on the page.

import { clockTime } from "./times.js";
import { alarmWord } from "./words.js";

const at = (id) => document.getElementById(id);

export class AlarmLine {
  // `acknowledge` gets the names of devices whose alarms a person has seen.
  constructor(acknowledge) {
    this.devices = [];
    this.seenHere = new Set(); // alarms acknowledged in this browser only
    at("acknowledge").onclick = () => acknowledge(this.devices.filter(({ unseen }) => unseen).map(({ name }) => name));
    at("alarm-more").onclick = () => at("alarm-list").showModal();
    at("alarm-close").onclick = () => at("alarm-list").close();
  }

  // Mark the alarms of these devices as seen in this browser.
  seeHere(facts, names) {
    for (const name of names) {
      for (const [kind, , since] of facts.devices[name]?.alarms ?? []) this.seenHere.add(`${name} ${kind} ${since}`);
    }
  }

  // Mark the alarms that were acknowledged in this browser as seen in `facts`.
  apply(facts) {
    for (const [name, state] of Object.entries(facts.devices)) {
      for (const alarm of state.alarms) alarm[3] ||= this.seenHere.has(`${name} ${alarm[0]} ${alarm[2]}`);
    }
  }

  show(facts) {
    this.devices = Object.entries(facts.devices)
      .map(([name, state]) => ({ name, alarms: state.alarms.filter(([kind]) => kind !== "gaps") }))
      .filter(({ alarms }) => alarms.length)
      .map(({ name, alarms }) => ({ name, alarms, unseen: alarms.some(([, , , seen]) => !seen) }));
    const words = this.devices.map(({ name, alarms }) => `${name}: ${alarms.map(([kind]) => alarmWord(kind)).join(", ")}`);
    const text = words.length ? `Alarm: ${words.join("; ")}` : "";
    // Set only when the text changes, because a screen reader reads it aloud each time.
    if (at("alarms").textContent !== text) {
      at("alarms").textContent = text;
      at("alarms").title = text;
    }
    const unseen = this.devices.some((device) => device.unseen);
    at("alarms").hidden = !text;
    at("status-line").dataset.alarm = text ? (unseen ? "new" : "seen") : "none";
    at("acknowledge").hidden = !unseen;
    at("alarm-more").hidden = !text;
    this.list();
    return text;
  }

  list() {
    const rows = this.devices.flatMap(({ name, alarms }) => alarms.map(([kind, text, since, seen]) => {
      const row = document.createElement("tr");
      for (const cell of [clockTime(since), name, alarmWord(kind), text, seen ? "acknowledged" : "new"]) row.insertCell().textContent = cell;
      return row;
    }));
    at("alarm-rows").replaceChildren(...rows);
  }
}
