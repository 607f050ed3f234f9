// How numbers, times, alarms and events are written, on the whole page.

const ALARMS = { high: "above limit", low: "below limit" };

export function shown(number) {
  if (number === null || number === undefined || Number.isNaN(number)) return "–";
  return number.toLocaleString("en", { maximumSignificantDigits: 6, useGrouping: false });
}

// The numbers at an axis, with the digits that their distance needs.
export function shownAlong(numbers, step) {
  const digits = Math.min(Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)), 12);
  const form = { maximumFractionDigits: digits, useGrouping: false };
  return numbers.map((number) => number.toLocaleString("en", form));
}

const CLOCK = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3,
});

export function clockTime(t) {
  return CLOCK.format(new Date(t * 1000));
}

export function dateAndTime(t) {
  return new Date(t * 1000).toLocaleString("sv");
}

// The time zone of this browser, in which the page shows all times.
export function zoneAt(t) {
  const minutes = -new Date(t * 1000).getTimezoneOffset();
  const two = (number) => String(Math.floor(Math.abs(number))).padStart(2, "0");
  const sign = minutes < 0 ? "−" : "+";
  const offset = minutes ? `UTC${sign}${two(minutes / 60)}:${two(minutes % 60)}` : "UTC";
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return name && name !== "UTC" ? `${name}, ${offset}` : offset;
}

export function alarmWord(alarm) {
  return ALARMS[alarm] || alarm;
}

export function eventWord(kind) {
  return kind.replaceAll("_", " ");
}

// An event's message. A recording keeps the command as it was sent: "setpoint: ALS 100.0".
export function eventText(kind, message, unit) {
  const sent = kind === "setpoint" && /^setpoint\w*: [A-Z]L?S (-?\d+(?:\.\d*)?)$/.exec(message);
  if (sent) return `setpoint ${shown(Number(sent[1]))}${unit ? ` ${unit}` : ""}`;
  return message;
}
