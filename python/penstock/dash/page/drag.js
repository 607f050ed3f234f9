// A drag across a chart chooses a range of time: by mouse, pen or finger.
//
// Rejected: uPlot's selection. It listens to the mouse only. Its cursors are synchronised, so the
// end of a drag reaches every chart, and each would zoom the scale that the previous one has set.

const SHORTEST_PX = 4;

export class Drag {
  // `over` is the part of a chart that has the points; `timeAt` gives the time at its pixel.
  constructor(over, timeAt, handlers) {
    this.over = over;
    this.timeAt = timeAt;
    this.handlers = handlers;
    this.begun = null;
    over.addEventListener("pointerdown", (event) => this.begin(event));
    over.addEventListener("pointermove", (event) => this.move(event));
    over.addEventListener("pointerup", (event) => this.end(event));
    // A finger that moves up or down scrolls the page; the browser then cancels the pointer.
    over.addEventListener("pointercancel", () => this.leave());
    over.addEventListener("lostpointercapture", () => this.leave());
  }

  pixel(event) {
    const box = this.over.getBoundingClientRect();
    return Math.min(Math.max(event.clientX - box.left, 0), box.width);
  }

  begin(event) {
    if (!event.isPrimary || event.button !== 0) return;
    this.over.setPointerCapture(event.pointerId);
    const x = this.pixel(event);
    // The ends are times and not pixels, because a live chart scrolls under the pointer.
    this.begun = { pointer: event.pointerId, x, moved: false, from: this.timeAt(x), to: this.timeAt(x) };
  }

  move(event) {
    const drag = this.begun;
    if (drag === null || event.pointerId !== drag.pointer) return;
    const x = this.pixel(event);
    if (!drag.moved && Math.abs(x - drag.x) < SHORTEST_PX) return;
    drag.moved = true;
    drag.to = this.timeAt(x);
    this.handlers.dragging(this.ends(drag), event);
  }

  end(event) {
    const drag = this.begun;
    if (drag === null || event.pointerId !== drag.pointer) return;
    drag.to = this.timeAt(this.pixel(event));
    this.leave();
    if (drag.moved && drag.to !== drag.from) this.handlers.chosen(this.ends(drag));
  }

  leave() {
    if (this.begun === null) return;
    this.begun = null;
    this.handlers.left();
  }

  ends(drag) {
    return [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)];
  }
}
