// The dialog that changes a setpoint or a gas: enter, confirm, answer.

import { shown } from "./words.js";

const dialog = document.getElementById("change");
const title = document.getElementById("change-title");
const entry = document.getElementById("change-entry");
const question = document.getElementById("change-question");
const answer = document.getElementById("change-answer");
const cancel = document.getElementById("change-cancel");
const next = document.getElementById("change-next");

function labelled(text, field) {
  const label = document.createElement("label");
  label.append(`${text} `, field);
  return label;
}

// Enter that repeats while it is held down must not enter a value and confirm it at once.
dialog.addEventListener("keydown", (event) => {
  if (event.repeat && event.key === "Enter") event.preventDefault();
});

export async function openChange(connection, card, ability) {
  const { device } = card;
  const name = device.name;
  let step = "enter";
  let field;
  question.hidden = true;
  answer.textContent = "";
  next.textContent = "Continue";
  next.removeAttribute("aria-disabled");
  cancel.textContent = "Cancel";
  if (ability === "setpoint") {
    title.textContent = `Setpoint of ${name}`;
    field = document.createElement("input");
    field.type = "number";
    field.step = "any";
    field.required = true;
    field.value = card.setpoint ?? "";
    entry.replaceChildren(labelled(`New setpoint${card.unit ? ` in ${card.unit}` : ""}`, field));
  } else {
    title.textContent = `Gas of ${name}`;
    field = document.createElement("select");
    entry.replaceChildren(labelled("New gas", field));
  }
  field.id = "change-field";
  dialog.showModal();
  if (ability === "gas") {
    answer.textContent = "asking the instrument for its gases";
    const found = await connection.ask({ type: "gases", device: name });
    answer.textContent = found.ok ? "" : found.text;
    for (const gas of found.gases || []) field.append(new Option(gas, gas));
  }
  field.focus();

  cancel.onclick = () => dialog.close();
  dialog.querySelector("form").onsubmit = async (event) => {
    event.preventDefault();
    if (step === "done") {
      dialog.close();
    } else if (step === "enter") {
      if (!field.value) return;
      const unit = card.unit ? ` ${card.unit}` : "";
      question.textContent =
        ability === "setpoint"
          ? `Change the setpoint of ${name} from ${shown(card.setpoint)} to ${shown(Number(field.value))}${unit}?`
          : `Change the gas of ${name} to ${field.value}?`;
      question.hidden = false;
      next.textContent = "Change it";
      step = "confirm";
      // Move the focus first: disabling the focused field would leave no element focused.
      next.focus();
      field.disabled = true;
    } else if (step === "confirm") {
      step = "wait";
      // aria-disabled, because `disabled` would take the focus away.
      next.setAttribute("aria-disabled", "true");
      answer.textContent = "sent";
      const wanted = ability === "setpoint" ? { value: Number(field.value) } : { gas: field.value };
      const result = await connection.ask({ type: ability, device: name, confirmed: true, ...wanted });
      answer.textContent = result.text;
      dialog.dataset.ok = String(result.ok);
      next.removeAttribute("aria-disabled");
      next.textContent = "Close";
      step = "done";
    }
  };
}
