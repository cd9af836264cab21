// Draws the charts of a page: each from the data of its element, in the colours of the style sheet.
// It is drawn again when the data, the theme, the clock or the room for it changes.

const drawn = new WeakMap();  // the element to its uPlot and what that was made of
const clock = document.getElementById("clock");
// Steps of an axis that counts tasks: there is no half of one.
const WHOLE = [...Array(12).keys()].flatMap((power) => [1, 2, 5].map((step) => step * 10 ** power));

const style = () => getComputedStyle(document.documentElement);
const colour = (name) => style().getPropertyValue(name).trim();

function span(seconds) {
  if (seconds === null || seconds === undefined) return "\u2013";
  if (seconds === 300) return ">5 min";  // the last bound: nobody knows how much more
  if (seconds < 1) return `${+(seconds * 1000).toPrecision(2)} ms`;
  return seconds < 120 ? `${+seconds.toPrecision(2)} s` : `${+(seconds / 60).toPrecision(2)} min`;
}

const written = {
  rate: (value) => value === null || value === undefined ? "\u2013" : `${+value.toPrecision(3)}\u202f/s`,
  seconds: span,
  tasks: (value) => value === null || value === undefined ? "\u2013" : value.toLocaleString("en").replaceAll(",", "\u202f"),
  share: (value) => value === null || value === undefined ? "\u2013" : `${(value * 100).toFixed(1)} %`,
};

function when(seconds) {
  const options = { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  if (clock.value === "utc") options.timeZone = "UTC";
  return new Intl.DateTimeFormat("en", options).format(new Date(seconds * 1000));
}

function axis(extra) {
  return {
    stroke: colour("--muted"), font: "12px system-ui, sans-serif",
    grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, ...extra,
  };
}

const isPower = (value) => Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-6;
const powers = (_, values) => values.map((value) => isPower(value) ? value : null);

// Each series lies on those before it.
function stacked(series) {
  const below = series.length ? series[0].values.map(() => 0) : [];
  return series.map((each) => each.values.map((value, place) => value === null ? null : (below[place] += value)));
}

function options(chart, box, readout) {
  const text = written[chart.unit];
  const line = (each) => ({
    label: each.label, stroke: colour(each.colour), width: 2, dash: each.dash.length ? each.dash : undefined,
    points: { show: each.values.filter((value) => value !== null).length < 2 }, spanGaps: chart.unit === "seconds",
  });
  const bars = (each) => ({
    label: each.label, stroke: colour(each.colour), fill: colour(each.colour), width: 0,
    paths: uPlot.paths.bars({ size: [0.7, 40], align: 1 }), points: { show: false },
  });
  const area = (each) => ({
    label: each.label, stroke: colour("--sheet"), fill: colour(each.colour), width: 1, points: { show: false },
    paths: uPlot.paths.stepped({ align: 1 }),
  });
  const made = { lines: line, bars, stack: area }[chart.kind];
  const log = chart.unit === "seconds";
  // What is drawn later covers what is below it, so a stack is drawn from its top.
  const shown = chart.kind === "stack" ? [...chart.series].reverse() : chart.series;
  return {
    width: box.clientWidth, height: box.clientHeight, legend: { show: false },
    tzDate: (at) => clock.value === "utc" ? uPlot.tzDate(new Date(at * 1000), "Etc/UTC") : new Date(at * 1000),
    padding: [12, 20, 0, 0],  // the last moment has its label below it
    cursor: { drag: { x: false, y: false }, points: { show: chart.kind === "lines" }, y: false },
    scales: {
      x: { time: true },
      y: log ? { distr: 3 } : { range: (_, least, most) => [0, chart.kind === "stack" ? 1 : Math.max(most || 0, 0.001) * 1.08] },
    },
    axes: [
      axis({ space: 70, size: 32, values: (_, moments, __, ___, step) => moments.map((at) => moment(at, step)) }),
      axis({
        size: 56, space: 36,
        ...(chart.unit === "tasks" ? { incrs: WHOLE } : {}),
        values: (_, values) => values.map((value) => value === null ? "" : text(value)),
        ...(log ? { filter: powers, grid: { stroke: colour("--line"), width: 1, filter: powers } } : {}),
      }),
    ],
    series: [{}, ...shown.map(made)],
    hooks: { setCursor: [(plot) => { readout.textContent = said(chart, plot.cursor.idx, text); }] },
  };
}

function moment(at, step) {
  const options = step >= 86400 ? { month: "short", day: "numeric" } : { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  if (clock.value === "utc") options.timeZone = "UTC";
  return new Intl.DateTimeFormat("en", options).format(new Date(at * 1000));
}

function said(chart, place, text) {
  if (place === null || place === undefined) return "";
  place = Math.min(place, chart.at.length - 1);
  const parts = chart.series.map((each) => `${each.label} ${text(each.values[place])}`);
  return [when(chart.at[place]), ...parts].join(" · ");
}

function data(chart) {
  if (chart.kind !== "stack") return [chart.at, ...chart.series.map((each) => each.values)];
  // A step is as wide as its time, also the last one: it ends where the next would begin.
  const series = stacked(chart.series).reverse().map((values) => [...values, values.at(-1)]);
  const { at } = chart;
  return [[...at, at.at(-1) + (at.length > 1 ? at.at(-1) - at.at(-2) : 60)], ...series];
}

function draw(box, anew) {
  const before = drawn.get(box);
  if (before && !anew && before.text === box.dataset.chart) return;
  const inner = box.querySelector(".drawn");
  if (!inner || !box.clientWidth) return;
  const chart = JSON.parse(box.dataset.chart);
  if (before) before.plot.destroy();
  inner.replaceChildren();
  const readout = document.createElement("p");
  readout.className = "readout";
  readout.setAttribute("aria-hidden", "true");
  const plot = new uPlot(options(chart, box, readout), data(chart), inner);
  inner.append(readout);
  drawn.set(box, { plot, text: box.dataset.chart });
  sizes.observe(box);
}

const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const known = drawn.get(target);
    if (known && target.isConnected && known.plot.width !== target.clientWidth && target.clientWidth) {
      known.plot.setSize({ width: target.clientWidth, height: target.clientHeight });
    }
  }
});

function drawAll(anew) {
  for (const box of document.querySelectorAll("[data-chart]")) draw(box, anew);
}

new MutationObserver(() => drawAll(false)).observe(document.getElementById("main"), {
  subtree: true, childList: true, attributes: true, attributeFilter: ["data-chart"],
});
new MutationObserver(() => drawAll(true)).observe(document.documentElement, { attributeFilter: ["data-theme"] });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll(true));
clock.addEventListener("change", () => drawAll(true));
drawAll(false);
