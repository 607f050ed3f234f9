// The texts of numbers, alarms and events, for all parts of the page.

const ALARMS = { high: "above limit", low: "below limit", limit: "alarm" };

// No instrument sends so many digits: a number with more was computed, or is a float of 32 bits.
const MOST_DIGITS = 12;
const COMPUTED_DIGITS = 6;
const SMALLEST_FIXED = 1e-4;
const LARGEST_FIXED = 1e12;
const SMALLEST_ON_AXIS = 1e-3;
const LARGEST_ON_AXIS = 1e7;

// The numbers of significant digits and of decimals in the shortest text of a number.
function digitsOf(number) {
  const [mantissa, exponent = "0"] = Math.abs(number).toExponential().split("e");
  const significant = mantissa.replace(".", "").length;
  return { significant, decimals: Math.max(0, significant - 1 - Number(exponent)) };
}

// The digits that an instrument sends of a quantity: those of the longest number so far.
export class Digits {
  constructor() {
    this.decimals = 0;
    this.significant = 1;
  }

  see(number) {
    if (number === null || number === undefined || number === 0) return;
    const { significant, decimals } = digitsOf(number);
    if (significant > MOST_DIGITS) return;
    if (isFixed(number)) this.decimals = Math.max(this.decimals, decimals);
    else this.significant = Math.max(this.significant, significant);
  }
}

function powerOfTen(number, decimals) {
  return number.toExponential(decimals).replace("e+", "e");
}

function isFixed(number) {
  const size = Math.abs(number);
  return number === 0 || (size >= SMALLEST_FIXED && size < LARGEST_FIXED);
}

// A number with the digits that its instrument sends; a computed number with six significant digits,
// or more if its whole part has more.
export function shown(number, digits = null) {
  if (number === null || number === undefined || Number.isNaN(number)) return "–";
  if (!Number.isFinite(number)) return number > 0 ? "∞" : "−∞";
  const own = number === 0 ? { significant: 1, decimals: 0 } : digitsOf(number);
  const computed = own.significant > MOST_DIGITS;
  if (!isFixed(number)) {
    const significant = computed ? COMPUTED_DIGITS : Math.max(own.significant, digits?.significant ?? 1);
    return powerOfTen(number, significant - 1);
  }
  if (!computed) return number.toFixed(Math.min(Math.max(own.decimals, digits?.decimals ?? 0), 20));
  const whole = Math.max(0, Math.floor(Math.log10(Math.abs(number))) + 1);
  const text = number.toFixed(Math.min(Math.max(0, COMPUTED_DIGITS - whole) + (Math.abs(number) < 1 ? 3 : 0), 12));
  return Number(Number(text).toPrecision(Math.max(COMPUTED_DIGITS, whole))).toString();
}

// The labels of an axis, with the digits that their distance `step` needs.
export function shownAlong(numbers, step) {
  const largest = Math.max(...numbers.map(Math.abs));
  const place = Math.floor(Math.log10(step) + 1e-9); // of the step's first digit
  if (largest > 0 && (largest < SMALLEST_ON_AXIS || (largest >= LARGEST_ON_AXIS && place > 2))) {
    const digits = Math.min(Math.max(0, Math.floor(Math.log10(largest)) - place), 12);
    return numbers.map((number) => (number === 0 ? "0" : powerOfTen(number, digits)));
  }
  const digits = Math.min(Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)), 12);
  return numbers.map((number) => number.toFixed(digits));
}

// The labels of a logarithmic axis: powers of ten; other numbers only if there are at most two powers.
export function shownAlongPowers(numbers) {
  // uPlot passes null for a number for which there is no room.
  const powers = numbers.filter((number) => number !== null && isPower(number));
  return numbers.map((number) => {
    if (number === null) return "";
    if (powers.length > 2 && !isPower(number)) return "";
    const size = Math.abs(number);
    return size >= SMALLEST_ON_AXIS && size < LARGEST_ON_AXIS ? String(Number(number.toPrecision(6))) : powerOfTen(number, 0);
  });
}

// The grid lines of a logarithmic axis: with more than two powers of ten, at the powers only.
export function powersOf(numbers) {
  const powers = numbers.filter((number) => number !== null && isPower(number));
  return powers.length > 2 ? numbers.map((number) => (powers.includes(number) ? number : null)) : numbers;
}

function isPower(number) {
  const power = Math.log10(number);
  return Math.abs(power - Math.round(power)) < 1e-6;
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
