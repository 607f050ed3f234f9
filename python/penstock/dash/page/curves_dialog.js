// The dialog that chooses the curves of a chart, their axes, and which axes are logarithmic.

import { shown } from "./words.js";

const at = (id) => document.getElementById(id);
const dialog = at("curves");
const MANY = 12;

function row(device, quantity, chosen, page) {
  const made = document.createElement("tr");
  const tick = document.createElement("input");
  tick.type = "checkbox";
  tick.checked = chosen !== undefined;
  tick.setAttribute("aria-label", `${device.name} ${quantity.label}`);
  const side = document.createElement("select");
  side.setAttribute("aria-label", `Axis of ${device.name} ${quantity.label}`);
  for (const [value, text] of [["", "by unit"], ["left", "left"], ["right", "right"]]) side.append(new Option(text, value));
  side.value = chosen?.side ?? "";
  made.insertCell().append(tick);
  made.insertCell().textContent = device.name;
  made.insertCell().textContent = quantity.label;
  const value = made.insertCell();
  value.className = "number";
  value.textContent = `${shown(page.valueOf(device.name, quantity.key), page.digitsOf(device.name, quantity.key))} ${quantity.unit}`;
  made.insertCell().append(side);
  made.read = () => (tick.checked ? [device.name, quantity.field, side.value] : null);
  made.words = `${device.name} ${quantity.label}`.toLowerCase();
  return made;
}

// `plan` is the plan of a card, `own` the name of the card's device or "". `done` gets the chosen
// plan, null for the one that the server proposes, or "remove".
export function openCurves(page, { title, plan, own, removable }, done) {
  at("curves-title").textContent = own ? `Curves of ${own}` : title || "New chart";
  at("curves-name").value = plan.title;
  at("curves-name").parentElement.hidden = Boolean(own);
  at("curves-remove").hidden = !removable && !own;
  at("curves-remove").textContent = own ? "As proposed" : "Remove chart";
  for (const side of ["left", "right"]) at(`curves-log-${side}`).checked = plan.log[side];
  const devices = [...page.devices.values()].sort((a, b) => (b.name === own) - (a.name === own));
  const rows = devices.flatMap((device) => device.quantities.map((quantity, n) => {
    const isNewest = !device.quantities.slice(n + 1).some((other) => other.field === quantity.field);
    const chosen = plan.curves.find((curve) => curve.device === device.name && curve.key === quantity.key);
    return isNewest ? row(device, quantity, chosen, page) : null;
  })).filter(Boolean);
  at("curves-rows").replaceChildren(...rows);
  const filter = at("curves-filter");
  filter.value = "";
  filter.parentElement.hidden = rows.length <= MANY;
  filter.oninput = () => {
    for (const each of rows) each.hidden = !each.words.includes(filter.value.trim().toLowerCase());
  };
  at("curves-cancel").onclick = () => dialog.close();
  at("curves-remove").onclick = () => {
    dialog.close();
    done(own ? null : "remove");
  };
  dialog.querySelector("form").onsubmit = () => {
    const curves = rows.map((each) => each.read()).filter(Boolean);
    const log = ["left", "right"].filter((side) => at(`curves-log-${side}`).checked);
    done({ title: at("curves-name").value.trim(), curves, log });
  };
  dialog.showModal();
}
