// The line of an envelope: every pixel that a sample would mark is marked.
//
// Between two points runs a line; a point of several samples is a stroke from the lowest to the
// highest value, so that a dense curve is one filled shape, and a point without neighbours is a dot.

const DOT_PX = 1.6;

// What uPlot draws of the series whose lowest values are at `index`, the highest ones behind it.
export function envelopePaths(lowAt) {
  return (plot, index, first, last) => {
    const t = plot.data[0];
    const low = plot.data[lowAt];
    const high = plot.data[lowAt + 1];
    const series = plot.series[index];
    const toX = placer(plot.scales.x, plot.bbox.left, plot.bbox.width, false);
    const toY = placer(plot.scales[series.scale], plot.bbox.top, plot.bbox.height, true);
    const stroke = new Path2D();
    const dots = new Path2D();
    const radius = DOT_PX * devicePixelRatio;
    let lineY = null; // where the line is by now; null before the first point of a line
    let startX = 0;
    let points = 0;
    const endLine = () => {
      if (points === 1) {
        dots.moveTo(startX + radius, lineY);
        dots.arc(startX, lineY, radius, 0, 2 * Math.PI);
      }
      points = 0;
      lineY = null;
    };
    for (let n = first; n <= last; n++) {
      if (high[n] === undefined) continue;
      const top = high[n] === null ? null : toY(high[n]);
      if (top === null) {
        endLine();
        continue;
      }
      const x = toX(t[n]);
      const bottom = high[n] === low[n] ? top : (toY(low[n]) ?? plot.bbox.top + plot.bbox.height);
      const [near, far] = lineY === null || Math.abs(lineY - top) <= Math.abs(lineY - bottom) ? [top, bottom] : [bottom, top];
      if (lineY === null) {
        stroke.moveTo(x, near);
        startX = x;
      } else {
        stroke.lineTo(x, near);
      }
      if (far !== near) stroke.lineTo(x, far);
      points += far === near ? 1 : 2;
      lineY = far;
    }
    endLine();
    return { stroke, fill: dots, clip: null, flags: 3 };
  };
}

// From a value to a pixel of the canvas; null where a logarithmic scale has no place.
function placer(scale, begin, size, upwards) {
  const log = scale.distr === 3;
  const of = log ? Math.log10 : (value) => value;
  const low = of(scale.min);
  const factor = size / (of(scale.max) - low);
  return (value) => {
    if (log && value <= 0) return null;
    const part = (of(value) - low) * factor;
    return upwards ? begin + size - part : begin + part;
  };
}
