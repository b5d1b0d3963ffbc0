// An axis of a plot: positions of values and ticks. Same rules as scale.rs, so that nothing moves on the first redraw.

const niceUp = value => {
  const decade = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 5].find(digit => digit * decade * 1.001 >= value) ?? 10) * decade;
};
const niceDown = value => {
  const decade = 10 ** Math.floor(Math.log10(value));
  return ([5, 2, 1].find(digit => digit * decade * 0.999 <= value) ?? 1) * decade;
};

class Axis {
  // `text` is "lin 0 16" or "log 1 1000"; `from` and `to` are the positions of its ends; `names` are the labels at 1, 2, 3 …, if any.
  constructor(text, from, to, names, isTime) {
    const [kind, min, max] = text.split(' ');
    Object.assign(this, { log: kind === 'log', min: +min, max: +max, from, to, names, isTime });
    this.drawn = this.whole = { log: this.log, min: this.min, max: this.max };
  }

  at(value) {
    const share = this.log
      ? Math.log(Math.max(value, this.min / 10) / this.min) / Math.log(this.max / this.min)
      : (value - this.min) / (this.max - this.min);
    return this.from + share * (this.to - this.from);
  }

  value(place) {
    const share = (place - this.from) / (this.to - this.from);
    return this.log ? this.min * (this.max / this.min) ** share : this.min + share * (this.max - this.min);
  }

  holds(value) {
    const slack = 1e-6 * (this.max - this.min);
    return value >= this.min - slack && value <= this.max + slack;
  }

  // Shows the range between two positions, limited to the full range.
  zoom(one, other) {
    const ends = [one, other].map(place => this.value(place)).sort((a, b) => a - b);
    const [min, max] = [Math.max(ends[0], this.whole.min), Math.min(ends[1], this.whole.max)];
    if (max - min > 1e-6 * (this.whole.max - this.whole.min)) Object.assign(this, { min, max });
  }

  unzoom() { Object.assign(this, this.whole); }

  // Whether the axis is unchanged.
  get isAsDrawn() { return ['log', 'min', 'max'].every(key => this[key] === this.drawn[key]); }

  refit() {
    this.whole = this.drawn;
    this.unzoom();
  }

  // Shows all of these values.
  fit(values, log) {
    const used = values.filter(value => Number.isFinite(value) && (!log || value > 0));
    let [min, max] = [0, Math.max(0, ...used) || 1];
    if (log) {
      min = used.length ? niceDown(Math.min(...used)) : 0.1;
      max = Math.max(niceUp(max), 2 * min);
    } else if (this.names) {
      max = this.names.length + 1;
    } else {
      const step = niceUp(max / 6 * 0.8);
      max = Math.max(1, Math.ceil(max / step - 0.001)) * step;
    }
    this.whole = { log, min, max };
    this.unzoom();
  }

  ticks() {
    const decades = Math.log10(this.max / this.min);
    if (this.log && decades > 0.7) {
      const digits = decades < 3 ? [1, 2, 5] : [1];
      const all = [];
      for (let exponent = Math.floor(Math.log10(this.min)); exponent <= Math.log10(this.max) + 1; exponent++) {
        all.push(...digits.map(digit => digit * 10 ** exponent));
      }
      const seen = all.filter(value => value >= this.min * 0.999 && value <= this.max * 1.001);
      const every = decades < 3 ? 1 : Math.ceil(decades / 7);
      return seen.filter((_, index) => index % every === 0).map(value => [value, this.label(value, value)]);
    }
    let step = niceUp((this.max - this.min) / 6 * 0.8);
    if (this.names) step = Math.max(1, Math.round(step));
    const ticks = [];
    for (let n = Math.ceil(this.min / step - 1e-6); n * step <= this.max + step * 1e-6; n++) {
      ticks.push([n * step, this.label(n * step + 0, step)]);
    }
    return ticks;
  }

  label(value, step) {
    if (this.names) return this.names[Math.round(value) - 1] ?? '';
    if (this.isTime && value > 0) {
      const [size, unit] = [[1, 'ns'], [1e3, 'µs'], [1e6, 'ms'], [1e9, 's']].findLast(([size]) => value >= size * 0.9995) ?? [1, 'ns'];
      return `${this.digits(value / size, step / size)} ${unit}`;
    }
    const size = Math.abs(value);
    if (size >= 1e7) return `${this.digits(value / 1e6, step / 1e6)} M`;
    if (size >= 1e4) return `${this.digits(value / 1e3, step / 1e3)} k`;
    return this.digits(value, step);
  }

  digits(value, step) {
    const maximumFractionDigits = Math.min(9, Math.max(0, Math.ceil(1 - Math.log10(step))));
    return value.toLocaleString('en-US', { maximumFractionDigits });
  }
}
