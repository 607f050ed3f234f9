// The charts and their curves, as a person has chosen them in this browser or in run.toml.

const SIDES = ["left", "right"];

// The key of a field's curve in its newest unit; null if the device does not have the field.
function keyOf(device, field) {
  const found = device?.quantities.filter((quantity) => quantity.field === field) ?? [];
  return found.length ? found[found.length - 1].key : null;
}

function unitOf(device, key) {
  return device.quantities.find((quantity) => quantity.key === key)?.unit ?? "";
}

export class Layout {
  // `recorded` has the charts of run.toml: a list of {title, curves: [[device, field, side]], log}.
  constructor(title, recorded) {
    this.place = `layout of ${title}`;
    this.recorded = recorded;
    // The choices of this browser: the plans of devices by name, and the other charts.
    this.own = { devices: {}, charts: null };
    try {
      const kept = JSON.parse(localStorage.getItem(this.place));
      if (kept !== null) this.own = { devices: kept.devices ?? {}, charts: kept.charts ?? null };
    } catch {
      // A layout that cannot be read, of an older page, is ignored.
    }
  }

  get charts() {
    return this.own.charts ?? this.recorded;
  }

  get isOwn() {
    return this.own.charts !== null || Object.keys(this.own.devices).length > 0;
  }

  keep() {
    localStorage.setItem(this.place, JSON.stringify(this.own));
  }

  forget() {
    this.own = { devices: {}, charts: null };
    localStorage.removeItem(this.place);
  }

  // Set the plan of a device's card, with fields for curves; null for the server's proposal.
  setDevice(name, chosen) {
    if (chosen === null) delete this.own.devices[name];
    else this.own.devices[name] = chosen;
    this.keep();
  }

  // Replace or add a chart that is not a device's; null removes it.
  setChart(number, chosen) {
    const charts = [...this.charts];
    if (chosen === null) charts.splice(number, 1);
    else charts[number] = chosen;
    this.own.charts = charts;
    this.keep();
  }

  // The plans of all cards: [name, plan, device].
  plans(devices) {
    const found = this.charts.map((chart, number) => [`chart ${number + 1}`, this.resolve(chart, devices), null]);
    for (const device of devices.values()) {
      const own = this.own.devices[device.name];
      const plan = own ? this.resolve(own, devices) : proposal(device);
      found.push([device.name, plan, device]);
    }
    return found.filter(([, plan, device]) => device !== null || plan.curves.length);
  }

  resolve({ title = "", curves, log = [] }, devices) {
    const found = [];
    for (const [device, field, side] of curves) {
      const key = keyOf(devices.get(device), field);
      if (key !== null) found.push({ device, key, side });
    }
    return { title, curves: withSides(found, devices), log: { left: log.includes("left"), right: log.includes("right") } };
  }

  // The charts as they are written in run.toml.
  asToml(devices) {
    const charts = [...this.charts];
    for (const [name, chosen] of Object.entries(this.own.devices)) {
      if (devices.has(name)) charts.push({ ...chosen, title: chosen.title || name });
    }
    const text = (value) => JSON.stringify(value);
    return charts.map((chart) => {
      const lines = ["[[dash.chart]]"];
      if (chart.title) lines.push(`title = ${text(chart.title)}`);
      const resolved = this.resolve(chart, devices);
      for (const side of SIDES) {
        const names = resolved.curves.filter((curve) => curve.side === side)
          .map(({ device, key }) => text(`${device}.${devices.get(device).quantities.find((quantity) => quantity.key === key).field}`));
        if (names.length) lines.push(`${side} = [${names.join(", ")}]`);
      }
      if (chart.log?.length) lines.push(`log = [${chart.log.map(text).join(", ")}]`);
      return lines.join("\n");
    }).join("\n\n");
  }
}

// The default plan of a device: its main quantity and setpoint.
function proposal(device) {
  const keys = [device.main, device.setpoint].filter((key) => key !== null);
  return { title: "", curves: keys.map((key) => ({ device: device.name, key, side: "left" })), log: { left: false, right: false } };
}

// Curves in the first unit are on the left, all others on the right, unless a side was chosen.
function withSides(curves, devices) {
  const first = curves.length ? unitOf(devices.get(curves[0].device), curves[0].key) : "";
  return curves.map((curve) => {
    const own = SIDES.includes(curve.side) ? curve.side : null;
    const unit = unitOf(devices.get(curve.device), curve.key);
    return { ...curve, side: own ?? (unit === first ? "left" : "right") };
  });
}
