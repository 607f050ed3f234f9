// How the page tells times: in the zone of this browser, in UTC, or since the first sample.

export const TIME_SCALES = ["local", "UTC", "elapsed"];
const DAY = 86400;
let scale = TIME_SCALES[0];
let start = null; // the first sample, in seconds since 1970; null without one

export function chooseTimes(name) {
  scale = TIME_SCALES.includes(name) ? name : TIME_SCALES[0];
  return scale;
}

// Count elapsed times from the first sample. Returns whether that changes what is shown.
export function countFrom(first) {
  const changed = first !== start;
  start = first;
  return changed && scale === "elapsed";
}

function isElapsed() {
  return scale === "elapsed" && start !== null;
}

const two = (number) => String(Math.floor(Math.abs(number))).padStart(2, "0");
const formats = {};

// Intl's formats are slow to make, and page and events show many times.
function inZone(name, language, options) {
  formats[`${name} ${scale}`] ??= new Intl.DateTimeFormat(language, { ...options, ...(scale === "UTC" && { timeZone: "UTC" }) });
  return formats[`${name} ${scale}`];
}

// Elapsed seconds as [days, time of the day]: ["−2 d", "03:00:07.250"].
function elapsed(seconds, decimals) {
  const unit = 10 ** decimals;
  const whole = Math.round(Math.abs(seconds) * unit);
  const days = Math.floor(whole / (DAY * unit));
  const rest = whole - days * DAY * unit;
  const clock = Math.floor(rest / unit);
  const fraction = decimals ? `.${String(rest - clock * unit).padStart(decimals, "0")}` : "";
  const time = `${two(clock / 3600)}:${two((clock % 3600) / 60)}:${two(clock % 60)}${fraction}`;
  const sign = seconds < 0 && whole > 0 ? "−" : "";
  return days ? [`${sign}${days} d`, time] : ["", `${sign}${time}`];
}

// The time of the day with milliseconds.
export function clockTime(t) {
  if (isElapsed()) return elapsed(t - start, 3).filter(Boolean).join(" ");
  const options = { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 };
  return inZone("clock", "en-GB", options).format(new Date(t * 1000));
}

// A time as [date, time of the day].
export function dateAndTime(t) {
  return isElapsed() ? elapsed(t - start, 0) : calendar(t);
}

function calendar(t) {
  const options = { year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric" };
  return inZone("calendar", "sv", options).format(new Date(t * 1000)).split(" ");
}

// A range, with its zone. Elapsed times tell the date from which they count.
export function rangeText([begin, end]) {
  const [first, last] = [begin, end].map((t) => dateAndTime(t).filter(Boolean).join(" "));
  if (!isElapsed()) return `${first} to ${last} (${zoneAt(end)})`;
  return `${first} to ${last} since ${calendar(start).join(" ")} (${zoneAt(start)})`;
}

// The time zone of the calendar.
function zoneAt(t) {
  if (scale === "UTC") return "UTC";
  const minutes = -new Date(t * 1000).getTimezoneOffset();
  const sign = minutes < 0 ? "−" : "+";
  const offset = minutes ? `UTC${sign}${two(minutes / 60)}:${two(minutes % 60)}` : "UTC";
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return name && name !== "UTC" ? `${name}, ${offset}` : offset;
}

// uPlot's own labels in 24 hours: [step in seconds, label, and below it what follows a new day].
const CALENDAR_LABELS = [
  [31536000, "{YYYY}", null, null, null, null, null, null, 1],
  [2419200, "{YYYY}-{MM}", null, null, null, null, null, null, 1],
  [86400, "{MM}-{DD}", "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
  [0.001, "{HH}:{mm}:{ss}.{fff}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
];

const ELAPSED_STEPS = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800,
  3600, 7200, 10800, 21600, 43200, ...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].map((days) => days * DAY),
];

// The places of the labels: whole steps since the start.
function elapsedPlaces(plot, axis, begin, end, step) {
  const places = [];
  for (let n = Math.ceil((begin - start) / step - 1e-6); start + n * step <= end; n++) places.push(start + n * step);
  return places;
}

// The labels; the days stand below the first one and where they change.
function elapsedLabels(plot, places, axis, space, step) {
  let before = null;
  return places.map((t) => {
    if (t === null) return "";
    const [days, time] = elapsed(t - start, step < 1 ? 3 : 0);
    if (step >= DAY) return days || "0";
    const below = days === before || (before === null && !days) ? "" : `\n${days || "0 d"}`;
    before = days;
    return `${step >= 60 ? time.slice(0, -3) : time}${below}`;
  });
}

// Labels with milliseconds are longer.
function labelSpace(plot, axis, begin, end, width) {
  return ((end - begin) / width) * 60 < 1 ? 86 : 60;
}

// The axis of time of a new plot, in uPlot's terms. Elapsed times are drawn anew after chooseTimes().
export function timeAxis() {
  if (!isElapsed()) return { space: labelSpace, values: CALENDAR_LABELS };
  return { space: labelSpace, incrs: ELAPSED_STEPS, splits: elapsedPlaces, values: elapsedLabels };
}

// The calendar of a new plot: uPlot's labels are of the zone in which this date is.
export function plotDate(t) {
  const date = new Date(t * 1000);
  return scale === "UTC" ? uPlot.tzDate(date, "Etc/UTC") : date;
}
