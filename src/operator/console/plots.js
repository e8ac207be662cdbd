// Charts of the console, drawn by uPlot. Without this file the tables below them have the same figures.
(() => {
  "use strict";
  const HEIGHT = 190;
  const COLOURS = { "": "--accent", second: "--wait", bad: "--bad", good: "--good", other: "--edge", before: "--faint" };
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const group = document.documentElement.lang === "en" ? "\u202f" : ",";
  const number = (format) => {
    const intl = new Intl.NumberFormat("en", format);
    return (value) => (value == null ? "\u2013" : intl.format(value).replaceAll(",", group));
  };
  const exact = number({ maximumFractionDigits: 2 });
  const short = number({ notation: "compact", maximumSignificantDigits: 4 });

  // Labels of the axis of time, by the clock of the page. A Swede writes a date as ISO 8601 does.
  const ticks = (zone) => {
    const clock = new Intl.DateTimeFormat("en-GB", { timeZone: zone, hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
    const day = new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short" });
    return (_, splits, axis, space, step) => splits.map((at) => {
      const moment = new Date(at * 1000);
      const time = clock.format(moment);
      return step >= 86400 || time === "00:00" ? day.format(moment).slice(5) : time;
    });
  };

  // What was wrong is behind the lines, and a start of an instance is a dashed line.
  const drawMarks = (axis) => (u) => {
    const { left, top, width, height } = u.bbox;
    const place = (at) => Math.min(Math.max(u.valToPos(at, "x", true), left), left + width);
    u.ctx.save();
    u.ctx.fillStyle = css("--bad-soft");
    for (const at of axis.bad) u.ctx.fillRect(place(at), top, Math.max(place(at + axis.step) - place(at), 2), height);
    u.ctx.strokeStyle = css("--wait");
    u.ctx.lineWidth = devicePixelRatio;
    u.ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
    for (const at of axis.started) {
      u.ctx.beginPath();
      u.ctx.moveTo(place(at), top);
      u.ctx.lineTo(place(at), top + height);
      u.ctx.stroke();
    }
    u.ctx.restore();
  };

  // Bars stand on each other: the tallest is drawn first, and the others in front of it.
  const stacked = (series) => {
    const sums = series[0].values.map(() => 0);
    return series.map(({ values }) => values.map((value, at) => (sums[at] += value ?? 0))).reverse();
  };

  // A point without neighbours makes no line, so it is drawn as a point.
  const alone = (values) =>
    [...values.keys()].filter((at) => values[at] != null && values[at - 1] == null && values[at + 1] == null);
  const lines = (plot) => plot.series.map((line) => ({
    stroke: css(COLOURS[line.class]),
    width: line.class === "before" ? 1 : 1.75,
    dash: line.class === "before" ? [3, 3] : undefined,
    points: {
      show: (u, at, first, last) => last - first < 2,
      filter: (u, at, shown) => (shown ? null : alone(u.data[at])),
      size: 4,
    },
  }));
  const bars = (plot) => plot.series.map(({ class: name }) => ({
    stroke: css(COLOURS[name]), fill: css(COLOURS[name]), width: 0, points: { show: false },
    paths: uPlot.paths.bars({ size: [0.8, 60] }),
  })).reverse();

  const draw = (figure) => {
    const axis = JSON.parse(figure.closest("[data-axis]").dataset.axis);
    const plot = JSON.parse(figure.dataset.plot);
    const box = figure.querySelector(".canvas");
    const values = [...figure.querySelectorAll("figcaption b")];
    const [label, link] = [figure.querySelector(".at"), figure.querySelector("figcaption a")];
    const count = axis.at.length;
    figure.uplot?.destroy();
    if (!count) return;
    if (link) link.hidden = false;
    let shown = axis.newest;
    // The words and figures of a point, and where it leads.
    const show = (at) => {
      shown = at;
      plot.series.forEach((line, index) => { values[index].textContent = exact(line.values[at]); });
      label.textContent = axis.labels[at];
      if (link) {
        const iso = (seconds) => `${new Date(seconds * 1000).toISOString().slice(0, 19)}Z`;
        const [from, to] = [iso(axis.at[at]), iso(axis.at[at + 1] ?? axis.end)];
        link.href = plot.link.replace("{from}", encodeURIComponent(from)).replace("{to}", encodeURIComponent(to));
      }
      box.setAttribute("aria-valuenow", at);
      box.setAttribute("aria-valuetext", figure.querySelector("figcaption").innerText.replace(/\s+/g, " "));
    };
    const faint = { stroke: css("--faint"), font: "12px system-ui, sans-serif" };
    const grid = { stroke: css("--line"), width: 1 };
    const middle = plot.bars ? axis.step / 2 : 0;
    // The newest bar stands in the middle of its time, which may not have ended.
    const end = plot.bars ? Math.max(axis.end, axis.at.at(-1) + axis.step) : axis.end;
    const u = new uPlot({
      width: box.clientWidth, height: HEIGHT, legend: { show: false },
      tzDate: (at) => uPlot.tzDate(new Date(at * 1000), axis.zone),
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 }, sync: { key: axis.zone } },
      scales: { x: { range: [axis.at[0], end] }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
      axes: [
        { ...faint, grid: { show: false }, ticks: grid, size: 30, space: 64, values: ticks(axis.zone) },
        { ...faint, grid, ticks: { show: false }, size: 50, values: (_, splits) => splits.map(short) },
      ],
      series: [{}, ...(plot.bars ? bars(plot) : lines(plot))],
      hooks: { drawAxes: [drawMarks(axis)], setCursor: [(u) => show(u.cursor.idx ?? axis.newest)] },
    }, [axis.at.map((at) => at + middle), ...(plot.bars ? stacked(plot.series) : plot.series.map((line) => line.values))], box);
    figure.uplot = u;
    const go = (at) => u.setCursor({ left: u.valToPos(u.data[0][at], "x"), top: 1 }, true, true);
    // With the keys of a slider, as which screen readers know it.
    for (const [name, value] of Object.entries({ role: "slider", tabindex: 0, "aria-valuemin": 0, "aria-valuemax": count - 1 })) {
      box.setAttribute(name, value);
    }
    box.onkeydown = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const far = Math.ceil(count / 10);
      const step = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -far, PageUp: far, Home: -count, End: count }[event.key];
      if (step) go(Math.min(Math.max(shown + step, 0), count - 1));
      else if (event.key === "Enter" && link) link.click();
      else return;
      event.preventDefault();
    };
    // A finger shows the point. It follows the link below; a mouse need not.
    u.over.addEventListener("pointermove", (event) => {
      if (event.pointerType !== "mouse") u.setCursor({ left: event.offsetX, top: event.offsetY });
    });
    u.over.addEventListener("click", (event) => { if (event.pointerType === "mouse" && link) link.click(); });
    u.over.classList.toggle("leads", Boolean(link));
    figure.sizes?.disconnect();
    figure.sizes = new ResizeObserver(() => {
      if (box.clientWidth !== u.width) u.setSize({ width: box.clientWidth, height: HEIGHT });
    });
    figure.sizes.observe(box);
    show(shown);
  };
  const drawAll = () => document.querySelectorAll("[data-plot]").forEach(draw);
  drawAll();
  document.addEventListener("loaded-again", drawAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
})();
