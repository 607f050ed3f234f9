// The line of an envelope: every pixel that a sample would mark is marked.
//
// A line joins two points. A point of several samples is a stroke from the lowest to the highest
// value, so a dense curve looks like one filled shape. A point without neighbours is a dot.

const DOT_PX = 1.6;

// Return uPlot's path builder for a curve: the series `lowAt` has its lowest values, the next series
// the highest.
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
    let lineY = null; // the end of the line so far; null before its first point
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

// Return a function from a value to a pixel of the canvas; null for a value that a logarithmic scale
// cannot show.
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
