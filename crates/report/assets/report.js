// Draws the plots of the page with uPlot. All rounding, ticks and words come with the data.
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Liberation Sans", Arial, sans-serif';
  const LANE = 17; // Height of one "unstable" line above the plot.
  const CLEAR = 5; // Between these lines and the topmost tick's text.
  const MARKED = 40; // Curves with more points get a mark on every n-th only.
  const HIDDEN = new Map(); // Plot index to the set of series a reader switched off.
  const VIEW = new Map(); // Plot index to what a reader chose to see: { x: [from, until], log }.

  const node = (name, className, text) => {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  // As in `palette.rs`: after each round dash and shape step on by different amounts.
  const style = (index) => ({
    dash: data.dashes[(index + Math.floor(index / data.dashes.length)) % data.dashes.length],
    shape: data.shapes[(index + 2 * Math.floor(index / data.shapes.length)) % data.shapes.length],
  });

  // Traces a mark around (x, y); the shapes are those of the SVG drawings.
  function trace(shape, x, y, r) {
    const path = new Path2D();
    const corners = {
      square: [[-1, -1], [1, -1], [1, 1], [-1, 1]],
      triangle: [[0, -1.25], [1.15, 0.9], [-1.15, 0.9]],
      diamond: [[0, -1.35], [1.35, 0], [0, 1.35], [-1.35, 0]],
      wedge: [[0, 1.25], [1.15, -0.9], [-1.15, -0.9]],
    }[shape];
    if (!corners) {
      path.arc(x, y, r, 0, 2 * Math.PI);
    } else {
      corners.forEach(([dx, dy], i) => path[i ? "lineTo" : "moveTo"](x + dx * r, y + dy * r));
      path.closePath();
    }
    return path;
  }

  // Series may stand on different grids. On the union of all x, `undefined` is "not my x" and is
  // drawn across; `null` is "no value here" and breaks the curve.
  function align(series) {
    const xs = [...new Set(series.flatMap((s) => s.x))].sort((a, b) => a - b);
    const place = new Map(xs.map((x, i) => [x, i]));
    const columns = series.map((s) => {
      const column = new Array(xs.length).fill(undefined);
      s.x.forEach((x, i) => { column[place.get(x)] = s.y[i]; });
      return column;
    });
    return { xs, place, columns };
  }

  // Index of the point of a series that is nearest to x.
  function nearest(xs, x) {
    let low = 0, high = xs.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (xs[middle] <= x) low = middle; else high = middle;
    }
    return Math.abs(xs[high] - x) < Math.abs(xs[low] - x) ? high : low;
  }

  // Ticks of an extent that a reader chose; those of the whole plot come with the data.
  function extent(min, max, log) {
    const inside = (v) => v >= min * (1 - 1e-9) && v <= max * (1 + 1e-9);
    if (log) {
      const powers = [];
      for (let e = Math.floor(Math.log10(min)); e <= Math.ceil(Math.log10(max)); e++) powers.push(e);
      const of = (parts) => powers.flatMap((e) => parts.map((p) => Number(`${p}e${e}`))).filter(inside);
      const every = Math.ceil(powers.length / 8);
      const ticks = powers.length > 4 ? of([1]).filter((_, i) => i % every === 0) : of([1, 2, 5]);
      if (ticks.length > 2) return { min, max, log, ticks, texts: ticks.map(short) };
    }
    const raw = (max - min) / 5, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].find((p) => p * power >= raw * 0.999) * power;
    const ticks = [];
    for (let k = Math.ceil(min / step - 1e-9); k * step <= max + step * 1e-9; k++) ticks.push(Number((k * step).toPrecision(12)));
    return { min, max, log, ticks, texts: ticks.map(short) };
  }

  function short(value) {
    const [, divisor, suffix] = [[1e12, 1e12, "T"], [1e9, 1e9, "G"], [1e6, 1e6, "M"], [1e4, 1e3, "k"]].find(([from]) => Math.abs(value) >= from) || [0, 1, ""];
    return `${Number((value / divisor).toPrecision(6))}${suffix}`;
  }

  // The plot as a reader wants to see it: a part of its width, or on the other kind of scale.
  function seen(plot, view) {
    if (!view) return plot;
    let { x, y } = plot;
    const values = plot.series.flatMap((s) => s.x.flatMap((at, i) => (!view.x || (at >= view.x[0] && at <= view.x[1]))
      ? [s.y[i], s.low[i], s.high[i]] : [])).filter((v) => v !== null && Number.isFinite(v));
    if (view.x) x = extent(view.x[0], view.x[1], x.log);
    if (view.x || view.log !== undefined) {
      const log = view.log === undefined ? y.log : view.log;
      const inView = plot.spots.filter(([at]) => !view.x || (at >= view.x[0] && at <= view.x[1]));
      const rules = [...(view.x ? [] : plot.rules.map(([, at]) => at)), ...inView.flatMap(([, a, b]) => [a, b])];
      const usable = [...values, ...rules].filter((v) => !log || v > 0);
      let low = Math.min(...usable), high = Math.max(...usable);
      if (!usable.length) [low, high] = [1, 10];
      if (log) [low, high] = high / low < 2 ? [low / 1.5, high * 1.5] : [low / 1.1, high * 1.1];
      else {
        if (low > 0 && low < 0.6 * high) low = 0;
        const pad = (high - low || Math.abs(high) || 1) * 0.06;
        [low, high] = [low === 0 ? 0 : low - pad, high + pad];
      }
      y = extent(low, high, log);
    }
    return { ...plot, x, y };
  }

  function draw(box, index, printing) {
    const view = printing ? undefined : VIEW.get(index);
    const plot = seen(data.panels[index], view);
    const colors = printing || !dark.matches ? data.light : data.dark;
    // A series has the style of its label in all plots of the page.
    const color = (i) => colors.curves[plot.series[i].style % colors.curves.length];
    const hidden = (!printing && HIDDEN.get(index)) || new Set();
    if (box.uplot) { box.uplot.destroy(); box.uplot = null; }
    box.replaceChildren();
    const caption = box.parentElement.querySelector(".y");
    caption.textContent = caption.textContent.replace(/, log scale$/, "") + (plot.y.log ? ", log scale" : "");
    const { xs, place, columns } = align(plot.series);
    if (xs.length === 0) {
      box.append(node("p", "empty", "No points to draw."));
      return;
    }

    // Paper has more dots than a screen: printed plots are drawn larger and shrunk.
    const zoom = printing ? 3 : 1;
    const width = (printing ? 620 : box.clientWidth) * zoom;
    const height = Math.max(230, Math.min(360, (width / zoom) * 0.6)) * zoom;
    const lanes = plot.series.map((s, i) => [s, i]).filter(([s, i]) => s.unstable.length && !hidden.has(i));
    const px = () => uPlot.pxRatio * zoom;
    const font = `${12 * zoom}px ${FONT}`;

    function clipped(u, paint) {
      const { ctx, bbox } = u;
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
      paint(ctx);
      ctx.restore();
    }

    const look = (change) => {
      VIEW.set(index, { ...VIEW.get(index), ...change });
      draw(box, index, false);
    };
    const X = (u, v) => u.valToPos(v, "x", true);
    const Y = (u, v) => u.valToPos(plot.y.log && v <= 0 ? plot.y.min : v, "y", true);

    // Under the curves: where a system cannot keep up, the spreads, the rules.
    function under(u) {
      const k = px();
      clipped(u, (ctx) => {
        const { left, top, width: w, height: h } = u.bbox;
        for (const [s, i] of lanes) {
          for (const [from, until] of s.unstable) {
            const a = Math.max(left, X(u, from));
            const b = until === null ? left + w : X(u, until);
            ctx.save();
            ctx.beginPath();
            ctx.rect(a, top, b - a, h);
            ctx.clip();
            ctx.fillStyle = color(i);
            ctx.globalAlpha = 0.05;
            ctx.fillRect(a, top, b - a, h);
            ctx.globalAlpha = 0.16;
            ctx.strokeStyle = color(i);
            ctx.lineWidth = k;
            ctx.beginPath();
            // Hatches of two series lean to different sides.
            const lean = i % 2 ? -1 : 1;
            for (let at = a - h; at < b + h; at += 9 * k) {
              ctx.moveTo(at, lean > 0 ? top + h : top);
              ctx.lineTo(at + h, lean > 0 ? top : top + h);
            }
            ctx.stroke();
            ctx.restore();
          }
        }
        plot.series.forEach((s, i) => { if (!hidden.has(i)) spread(u, ctx, s, color(i), k); });
        for (const [, x, i] of plot.marks) {
          if (i !== null && hidden.has(i)) continue;
          const at = Math.round(X(u, x));
          ctx.strokeStyle = i === null ? colors.rule : color(i);
          ctx.lineWidth = k;
          ctx.setLineDash([2 * k, 3 * k]);
          ctx.beginPath();
          ctx.moveTo(at, top);
          ctx.lineTo(at, top + h);
          ctx.stroke();
        }
        for (const [, y] of plot.rules) {
          const at = Math.round(Y(u, y));
          ctx.strokeStyle = colors.rule;
          ctx.lineWidth = k;
          ctx.setLineDash([6 * k, 4 * k]);
          ctx.beginPath();
          ctx.moveTo(left, at);
          ctx.lineTo(left + w, at);
          ctx.stroke();
        }
      });
    }

    function spread(u, ctx, s, stroke, k) {
      let run = [];
      const flush = () => {
        if (run.length === 1) {
          const [x, low, high] = run[0];
          ctx.globalAlpha = 0.5;
          ctx.strokeStyle = stroke;
          ctx.lineWidth = 2 * k;
          ctx.setLineDash([]);
          ctx.beginPath();
          ctx.moveTo(x, low);
          ctx.lineTo(x, high);
          ctx.stroke();
        } else if (run.length > 1) {
          ctx.globalAlpha = colors === data.dark ? 0.22 : 0.16;
          ctx.fillStyle = stroke;
          ctx.beginPath();
          run.forEach(([x, low], i) => ctx[i ? "lineTo" : "moveTo"](x, low));
          for (let i = run.length - 1; i >= 0; i--) ctx.lineTo(run[i][0], run[i][2]);
          ctx.fill();
        }
        ctx.globalAlpha = 1;
        run = [];
      };
      s.x.forEach((x, i) => {
        if (s.y[i] === null || s.low[i] === null || s.high[i] === null) flush();
        else run.push([X(u, x), Y(u, s.low[i]), Y(u, s.high[i])]);
      });
      flush();
    }

    // Over the curves: marks, names of rules, and a line per unstable series above the plot.
    function over(u) {
      const { ctx, bbox } = u;
      const k = px();
      const right = bbox.left + bbox.width, bottom = bbox.top + bbox.height;
      ctx.save();
      plot.series.forEach((s, i) => {
        if (hidden.has(i)) return;
        const every = s.x.length <= MARKED ? 1 : Math.ceil(s.x.length / 12);
        ctx.fillStyle = color(i);
        s.x.forEach((x, j) => {
          if (s.y[j] === null || (j + i) % every) return;
          const at = [X(u, x), Y(u, s.y[j])];
          const slack = 2 * k;
          if (at[0] < bbox.left - slack || at[0] > right + slack || at[1] < bbox.top - slack || at[1] > bottom + slack) return;
          ctx.fill(trace(style(s.style).shape, at[0], at[1], 3.2 * k));
        });
      });
      // What the source gives: a hollow diamond, on a bar where it gives a range.
      for (const [x, low, high, i] of plot.spots) {
        if (i !== null && hidden.has(i)) continue;
        const at = X(u, x), from = Y(u, low), to = Y(u, high), middle = (from + to) / 2, r = 5 * k;
        if (at < bbox.left - 1 || at > right + 1 || middle < bbox.top - 1 || middle > bottom + 1) continue;
        ctx.setLineDash([]);
        ctx.strokeStyle = i === null ? colors.rule : color(i);
        ctx.lineWidth = k;
        ctx.beginPath();
        ctx.moveTo(at, from);
        ctx.lineTo(at, to);
        ctx.stroke();
        ctx.beginPath();
        ctx.moveTo(at, middle - r);
        ctx.lineTo(at + r, middle);
        ctx.lineTo(at, middle + r);
        ctx.lineTo(at - r, middle);
        ctx.closePath();
        ctx.fillStyle = colors.paper;
        ctx.fill();
        ctx.lineWidth = 2 * k;
        ctx.stroke();
      }
      ctx.font = `${12 * k}px ${FONT}`;
      ctx.textBaseline = "bottom";
      for (const [label, y] of plot.rules) {
        const at = Y(u, y);
        if (at < bbox.top - 1 || at > bottom + 1) continue;
        // A halo of paper keeps the words readable where a curve passes behind them.
        const below = at < bbox.top + 18 * k;
        ctx.textBaseline = below ? "top" : "bottom";
        ctx.textAlign = "left";
        ctx.lineWidth = 4 * k;
        ctx.lineJoin = "round";
        ctx.strokeStyle = colors.paper;
        ctx.fillStyle = colors.rule;
        const spot = [bbox.left + 6 * k, at + (below ? 3 : -2) * k];
        ctx.strokeText(label, ...spot);
        ctx.fillText(label, ...spot);
      }
      // Names of upright lines: of the whole plot at the top, of series at the bottom, one above
      // the other.
      let line = 0;
      const ends = []; // Of the names in each line at the top.
      for (const [label, x, i] of [...plot.marks].sort((a, b) => a[1] - b[1])) {
        const at = X(u, x);
        if ((i !== null && hidden.has(i)) || at < bbox.left - 1 || at > right + 1) continue;
        const wide = ctx.measureText(label).width + 8 * k;
        const after = at + wide < right;
        ctx.textAlign = after ? "left" : "right";
        ctx.textBaseline = i === null ? "top" : "bottom";
        ctx.lineWidth = 4 * k;
        ctx.strokeStyle = colors.paper;
        ctx.fillStyle = i === null ? colors.rule : color(i);
        const from = after ? at : at - wide;
        let row = 0;
        while (i === null && ends[row] > from) row += 1;
        if (i === null) ends[row] = from + wide;
        const y = i === null ? bbox.top + (3 + 15 * row) * k : bottom - (3 + 15 * line++) * k;
        const spot = [at + (after ? 4 : -4) * k, y];
        ctx.strokeText(label, ...spot);
        ctx.fillText(label, ...spot);
      }
      lanes.forEach(([s, i], lane) => {
        const y = bbox.top - ((lanes.length - lane - 0.5) * LANE + CLEAR) * k;
        ctx.strokeStyle = ctx.fillStyle = color(i);
        ctx.textBaseline = "middle";
        s.unstable.forEach(([from, until, words], run) => {
          const x = Math.max(bbox.left, X(u, from));
          if (x > right) return;
          const end = until === null ? right : X(u, until);
          const r = 4 * k;
          ctx.lineWidth = 2 * k;
          ctx.setLineDash([]);
          ctx.beginPath();
          ctx.moveTo(x - r, y - r); ctx.lineTo(x + r, y + r);
          ctx.moveTo(x - r, y + r); ctx.lineTo(x + r, y - r);
          ctx.stroke();
          ctx.lineWidth = k;
          ctx.globalAlpha = 0.7;
          ctx.beginPath();
          ctx.moveTo(x, y + r); ctx.lineTo(x, bottom);
          ctx.setLineDash([k, 3 * k]);
          ctx.stroke();
          ctx.setLineDash([]);
          ctx.globalAlpha = 1;
          // Before the cross if there is room, else after it; with the name if it fits.
          let start = x + 7 * k;
          for (const text of run ? [] : [`${s.label} unstable from ${words}`, `unstable from ${words}`, "unstable"]) {
            const room = ctx.measureText(text).width + 10 * k;
            const before = x - room > 0;
            if (!before && x + room > ctx.canvas.width) continue;
            ctx.textAlign = before ? "right" : "left";
            ctx.fillText(text, before ? x - 9 * k : x + 9 * k, y);
            if (!before) start = x + room + 2 * k;
            break;
          }
          ctx.beginPath();
          if (end > start) { ctx.moveTo(start, y); ctx.lineTo(end, y); }
          ctx.stroke();
        });
      });
      ctx.restore();
    }

    const axis = (extent, extra) => ({
      stroke: colors.muted, font, gap: 6 * zoom,
      grid: { stroke: colors.grid, width: zoom },
      ticks: { stroke: colors.muted, width: zoom, size: 4 * zoom },
      border: { show: true, stroke: colors.muted, width: zoom },
      splits: () => extent.ticks, values: () => extent.texts, filter: (u, splits) => splits,
      ...extra,
    });
    const widest = Math.max(...plot.y.texts.map((t) => t.length));
    const scale = (extent) => ({ time: false, auto: false, distr: extent.log ? 3 : 1, log: 10, range: () => [extent.min, extent.max] });
    const legend = legendOf(plot, index, box, color, hidden);
    const wrap = node("div");
    box.append(wrap);
    if (!printing) box.append(tools(data.panels[index], plot, view, look));
    box.append(legend.list);
    box.uplot = new uPlot({
      width, height,
      padding: [(lanes.length ? CLEAR + lanes.length * LANE : 8) * zoom, 14 * zoom, 0, 0],
      legend: { show: false },
      scales: { x: scale(plot.x), y: scale(plot.y) },
      axes: [
        axis(plot.x, { label: plot.x_caption, labelFont: font, labelSize: 20 * zoom, labelGap: 2 * zoom, size: 28 * zoom }),
        axis(plot.y, { size: (widest * 7 + 16) * zoom }),
      ],
      series: [{}, ...plot.series.map((s, i) => ({
        show: !hidden.has(i), stroke: color(i), width: 2 * zoom,
        dash: style(s.style).dash.map((d) => d * zoom), points: { show: false }, spanGaps: false,
      }))],
      cursor: {
        y: false, drag: { x: !printing, y: false, setScale: false, dist: 8 },
        // Plots of one figure show the same place.
        sync: { key: box.closest(".figure").id, scales: ["x", null], setSeries: false },
        points: { size: 9, fill: colors.paper, width: 2, stroke: (u, i) => color(i - 1) },
        dataIdx: (u, i, hovered) => {
          const s = plot.series[i - 1];
          if (!s || !s.x.length || hovered == null) return hovered;
          return place.get(s.x[nearest(s.x, xs[hovered])]);
        },
      },
      hooks: {
        drawAxes: [under],
        draw: [over],
        // A stretch that is dragged over is shown alone.
        setSelect: [(u) => {
          const { left, width: w } = u.select;
          if (w < 8) return;
          const [from, until] = [u.posToVal(left, "x"), u.posToVal(left + w, "x")];
          setTimeout(() => look({ x: [from, until] }));
        }],
        setCursor: [(u) => legend.say(u.cursor.left < 0 || u.cursor.idx == null ? null : xs[u.cursor.idx])],
      },
    }, [xs, ...columns], wrap);
    const canvas = wrap.querySelector("canvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `Plot: ${plot.title}. The table of values below holds its numbers.`);
    if (printing) { wrap.style.zoom = 1 / zoom; }
  }

  // Buttons below a plot: the other scale, and closer or farther, for those without a pointer.
  function tools(whole, plot, view, look) {
    const row = node("div", "tools");
    const button = (text, title, act) => {
      const made = node("button", "", text);
      made.type = "button";
      made.title = title;
      made.addEventListener("click", () => {
        const box = row.closest(".plot");
        act();
        [...box.querySelectorAll(".tools button")].find((one) => one.textContent === text)?.focus();
      });
      row.append(made);
    };
    const scale = plot.y.log ? "linear scale" : "log scale";
    const positive = whole.series.some((s) => s.y.some((y) => y !== null && y > 0));
    if (plot.y.log || positive) button(scale, "Draw heights on the other kind of scale", () => look({ log: !plot.y.log }));
    const part = (share) => {
      const { min, max, log } = plot.x;
      const [a, b] = log ? [Math.log(min), Math.log(max)] : [min, max];
      const [from, until] = [a + (b - a) * share[0], a + (b - a) * share[1]];
      look({ x: log ? [Math.exp(from), Math.exp(until)] : [from, until] });
    };
    button("left half", "Show the left half; or drag over the plot", () => part([0, 0.5]));
    button("right half", "Show the right half; or drag over the plot", () => part([0.5, 1]));
    if (view && (view.x || view.log !== undefined)) button("all", "Show the plot as it was", () => look({ x: undefined, log: undefined }));
    return row;
  }

  // The legend names each curve and, under the pointer, says its value with unit and spread.
  function legendOf(plot, index, box, color, hidden) {
    const list = node("div", "legend");
    const rows = plot.series.map((s, i) => {
      const row = node("button");
      row.type = "button";
      row.title = "Show or hide this series";
      row.setAttribute("aria-pressed", String(!hidden.has(i)));
      row.addEventListener("click", () => {
        const set = HIDDEN.get(index) || new Set();
        if (!set.delete(i)) set.add(i);
        HIDDEN.set(index, set);
        draw(box, index, false);
        box.querySelectorAll(".legend button")[i].focus();
      });
      const value = node("span", "value"), spread = node("span", "spread");
      row.append(sample(s.style, color(i)), node("span", "label", s.label), value, spread);
      list.append(row);
      return { s, value, spread };
    });
    const at = node("p", "at"), where = node("span");
    at.append(where);
    list.append(at);
    const unit = plot.x_unit ? ` ${plot.x_unit}` : "";
    const say = (x) => {
      where.textContent = "";
      let named = "";
      for (const { s, value, spread } of rows) {
        value.textContent = spread.textContent = "";
        if (x === null || !s.x.length) continue;
        const i = nearest(s.x, x);
        if (s.x[i] === x) named = s.x_text[i];
        value.textContent = s.text[i][0];
        spread.textContent = s.x[i] === x ? s.text[i][1] : `at ${s.x_text[i]}${unit}`;
      }
      if (x !== null) where.textContent = `at ${plot.x_name} ${named}${unit}`;
    };
    return { list, say };
  }

  // A piece of the curve, as in the plot.
  function sample(index, stroke) {
    const k = window.devicePixelRatio || 1;
    const canvas = node("canvas");
    canvas.width = 34 * k;
    canvas.height = 12 * k;
    canvas.style.cssText = "width:34px;height:12px";
    const ctx = canvas.getContext("2d");
    ctx.scale(k, k);
    ctx.strokeStyle = ctx.fillStyle = stroke;
    ctx.lineWidth = 2;
    ctx.setLineDash(style(index).dash);
    ctx.beginPath();
    ctx.moveTo(0, 6);
    ctx.lineTo(34, 6);
    ctx.stroke();
    ctx.fill(trace(style(index).shape, 17, 6, 3.6));
    return canvas;
  }

  // What is folded is one text until it is opened; see `html.rs`.
  const unfold = (details) => {
    const held = details.querySelector(":scope > noscript");
    if (!held) return;
    const parts = document.createElement("template");
    parts.innerHTML = held.textContent;
    held.replaceWith(parts.content);
    for (const command of details.querySelectorAll(".command")) copies(command);
  };
  document.addEventListener("toggle", (event) => { if (event.target.open) unfold(event.target); }, true);
  // A link may lead to something that is folded.
  const seek = () => {
    const id = decodeURIComponent(location.hash.slice(1));
    if (!id) return;
    if (!document.getElementById(id)) {
      const holds = (one) => one.textContent.includes(`id="${id}"`);
      const held = [...document.querySelectorAll("details > noscript")].find(holds);
      if (held) { const details = held.parentElement; unfold(details); details.open = true; }
    }
    document.getElementById(id)?.scrollIntoView();
  };
  addEventListener("hashchange", seek);

  const boxes = [...document.querySelectorAll("[data-plot]")];
  // A plot is drawn when it comes near the window.
  const drawn = new Set();
  const drawAll = (printing) => (printing ? boxes : boxes.filter((box) => drawn.has(box)))
    .forEach((box) => draw(box, Number(box.dataset.plot), printing));
  const near = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting || drawn.has(target)) continue;
      drawn.add(target);
      near.unobserve(target);
      draw(target, Number(target.dataset.plot), false);
    }
  }, { rootMargin: "800px 0px" });
  boxes.forEach((box) => near.observe(box));
  dark.addEventListener("change", () => drawAll(false));

  // The contents name the figure that is being read.
  const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a]));
  const reading = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      const link = links.get(target.id);
      if (!isIntersecting) link.removeAttribute("aria-current");
      else link.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-20% 0px -79% 0px" });
  document.querySelectorAll("section[id]").forEach((one) => { if (links.has(one.id)) reading.observe(one); });

  // Once the page can be used, its figures are laid out one by one, from the first that begins below
  // the top of the window. Those above stay as they are: what is being read must not move.
  const unsettled = new Set(document.querySelectorAll(".figure"));
  const idle = window.requestIdleCallback ?? ((act) => setTimeout(act, 50));
  const settle = () => {
    const next = [...unsettled].find((one) => one.getBoundingClientRect().top > 0);
    if (!next) return;
    unsettled.delete(next);
    next.classList.add("settled");
    requestAnimationFrame(() => idle(settle));
  };
  addEventListener("load", () => idle(settle));

  let waiting = 0, printing = false;
  const widths = new Map();
  const observer = new ResizeObserver((entries) => {
    // The first report of a box tells its width. Asking would lay out figures that nobody sees yet.
    const moved = entries.some(({ target, contentRect }) => widths.has(target) && widths.get(target) !== contentRect.width);
    for (const { target, contentRect } of entries) widths.set(target, contentRect.width);
    if (!moved || printing) return;
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => drawAll(false));
  });
  boxes.forEach((box) => observer.observe(box));

  let opened = [];
  addEventListener("beforeprint", () => {
    printing = true;
    document.querySelectorAll("details, .world").forEach(unfold);
    opened = [...document.querySelectorAll("details:not([open])")];
    boxes.forEach((box) => drawn.add(box));
    opened.forEach((details) => { details.open = true; });
    drawAll(true);
  });
  addEventListener("afterprint", () => {
    printing = false;
    opened.forEach((details) => { details.open = false; });
    drawAll(false);
  });

  // Maps are drawn before and shown when they come near the window; here a reader looks closer, by
  // buttons or by keys.
  const sheets = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      sheets.unobserve(target);
      explore(target);
    }
  }, { rootMargin: "800px 0px" });
  document.querySelectorAll(".world").forEach((box) => sheets.observe(box));
  function explore(box) {
    unfold(box);
    const sheet = box.querySelector("svg");
    const whole = sheet.getAttribute("viewBox").split(" ").map(Number);
    let [x, y, w, h] = whole;
    // Keeps the frame on the sheet, and as high as it is wide.
    const show = (cx, cy, width) => {
      w = Math.min(whole[2], Math.max(whole[2] / 32, width));
      h = whole[3] * w / whole[2];
      x = Math.min(whole[0] + whole[2] - w, Math.max(whole[0], cx - w / 2));
      y = Math.min(whole[1] + whole[3] - h, Math.max(whole[1], cy - h / 2));
      sheet.setAttribute("viewBox", [x, y, w, h].map((n) => n.toFixed(2)).join(" "));
    };
    const zoom = (factor) => show(x + w / 2, y + h / 2, w * factor);
    const pan = (dx, dy) => show(x + w / 2 + dx * w / 5, y + h / 2 + dy * h / 5, w);
    const keys = {
      "+": () => zoom(1 / 1.5), "=": () => zoom(1 / 1.5), "-": () => zoom(1.5), "0": () => zoom(99),
      ArrowLeft: () => pan(-1, 0), ArrowRight: () => pan(1, 0),
      ArrowUp: () => pan(0, -1), ArrowDown: () => pan(0, 1),
    };
    box.addEventListener("keydown", (event) => {
      const act = event.altKey || event.ctrlKey || event.metaKey ? null : keys[event.key];
      if (!act) return;
      act();
      event.preventDefault();
    });
    // A click looks closer at that spot.
    box.addEventListener("dblclick", (event) => {
      const at = sheet.getBoundingClientRect();
      show(x + (event.clientX - at.left) / at.width * w, y + (event.clientY - at.top) / at.height * h, w / 2);
    });
    const bar = node("div", "zoom");
    for (const [text, name, key] of [["+", "closer", "+"], ["−", "farther", "-"], ["all", "the whole map", "0"]]) {
      const button = node("button", "", text);
      button.type = "button";
      button.title = name;
      if (text !== "all") button.ariaLabel = name;
      button.addEventListener("click", () => keys[key]());
      bar.append(button);
    }
    box.after(bar);
  }

  function copies(command) {
    const button = node("button", "", "copy");
    button.type = "button";
    button.addEventListener("click", async () => {
      const code = command.querySelector("code");
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "copied";
        setTimeout(() => { button.textContent = "copy"; }, 1500);
      } catch {
        getSelection().selectAllChildren(code);
        button.textContent = "selected";
      }
    });
    command.append(button);
  }
  document.querySelectorAll(".command").forEach(copies);
  seek();
})();
