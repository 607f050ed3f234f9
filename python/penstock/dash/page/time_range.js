// The range of time that all charts show: up to now, everything, or a fixed one.

const SHORTEST_SPAN = 0.05;
const LONGEST_SPAN = 10 * 366 * 86400;
const LATEST = 9e9; // the server's limit, in the year 2255

export class TimeRange {
  constructor() {
    this.span = 60; // seconds up to now
    this.all = false; // the whole recording, as it grows
    this.fixed = null; // [begin, end] in seconds since 1970; null for the range of the two above
    this.home = { span: this.span, all: this.all }; // the range that a button has chosen
    this.extent = { first: null, last: null, live: true, now: Date.now() / 1000 };
  }

  // The extent of the recording: `first` and `last` are times of samples, null without any.
  setExtent(extent) {
    this.extent = extent;
  }

  get live() {
    return this.extent.live;
  }

  get paused() {
    return this.live && this.fixed !== null;
  }

  // The latest time to show: the current time, or the last sample of an ended recording.
  get now() {
    const { live, now, last } = this.extent;
    return live || last === null ? now : last;
  }

  // Where the recording begins and ends, with a margin; null without samples.
  get edges() {
    const { first, last, live, now } = this.extent;
    if (first === null) return null;
    const margin = Math.max((last - first) * 0.01, 0.1);
    return [first - margin, live ? Math.max(now, last) : last + margin];
  }

  get visible() {
    if (this.fixed !== null) return this.fixed;
    if (this.all && this.edges !== null) return this.edges;
    return [this.now - this.span, this.now];
  }

  // The range to ask the server for. For a growing range it extends beyond the visible one.
  get asked() {
    if (this.fixed === null && !(this.all && this.edges !== null)) return { span: this.span };
    const [begin, end] = this.visible;
    const more = this.fixed === null && this.live ? 0.25 * (end - begin) + 10 : 0;
    return { from: Math.max(0, begin), to: end + more };
  }

  // Whether the range has outgrown what was asked for.
  outgrown(asked) {
    return this.fixed === null && this.all && asked?.to !== undefined && this.visible[1] > asked.to;
  }

  choose(home) {
    this.home = home;
    this.goHome();
  }

  goHome() {
    Object.assign(this, this.home, { fixed: null });
  }

  // Go back to the range of the buttons; for an ended recording, to the whole recording.
  reset() {
    this.goHome();
    if (!this.live) this.all = true;
  }

  goOn() {
    this.fixed = null;
  }

  fix([begin, end]) {
    const middle = (begin + end) / 2;
    const half = Math.min(Math.max(end - begin, SHORTEST_SPAN), LONGEST_SPAN) / 2;
    const from = Math.min(Math.max(0, middle - half), LATEST - 2 * half);
    this.fixed = [from, from + 2 * half];
  }

  zoom(factor) {
    const [begin, end] = this.visible;
    const span = Math.min(Math.max((end - begin) * factor, SHORTEST_SPAN), LONGEST_SPAN);
    if (this.fixed === null && this.all && factor > 1) return;
    if (this.fixed === null && (this.live || !this.all)) {
      this.span = span;
      this.all = false;
    } else {
      this.fix([(begin + end - span) / 2, (begin + end + span) / 2]);
    }
  }

  // Move by a part of the range, but not beyond the recording. Returns whether the range moved.
  shift(part) {
    if (this.edges === null) return false;
    const [first, last] = this.edges;
    const [begin, end] = this.visible;
    const wanted = (end - begin) * part;
    const by = part < 0
      ? Math.max(wanted, Math.min(0, first - begin))
      : Math.min(wanted, Math.max(0, last - end));
    if (by === 0) return false;
    this.fix([begin + by, end + by]);
    return true;
  }
}
