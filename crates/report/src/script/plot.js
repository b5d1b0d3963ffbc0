// Plots: tooltips for pointer and arrow keys, zoom, logarithmic axes, and hiding of series. Works on the drawing in the
// page: its elements carry their values (data-p) and are moved when an axis changes. Nothing moves before the user acts.

const make = (name, attributes = {}, text = '') => {
  const isSvg = ['g', 'line', 'text', 'rect', 'svg', 'clipPath'].includes(name);
  const element = isSvg ? document.createElementNS('http://www.w3.org/2000/svg', name) : document.createElement(name);
  Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
  element.textContent = text;
  return element;
};

const button = (words, label, act) => {
  const made = make('button', { type: 'button', title: label, 'aria-label': label }, words);
  made.addEventListener('click', () => act(made));
  return made;
};

// Describes the keyboard controls of a drawing for screen readers.
const explain = (svg, words) => {
  const id = `${svg.closest('figure').id}-help`;
  svg.after(make('p', { id, class: 'screen-reader' }, words));
  svg.setAttribute('tabindex', '0');
  svg.setAttribute('role', 'application');
  svg.setAttribute('aria-describedby', `${svg.getAttribute('aria-describedby')} ${id}`);
};

// The tooltip next to the pointer, or below the point selected by keys. There is one per page.
const tip = make('div', { class: 'tip', role: 'status', hidden: '' });
const hideTip = () => { tip.hidden = true; };
const showTip = (lines, x, y) => {
  tip.replaceChildren(...lines.map(line => make('div', {}, line)));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const room = document.documentElement.clientWidth;
  tip.style.left = `${Math.max(4, Math.min(x + 14, room - width - 4))}px`;
  tip.style.top = `${y + 14 + height > innerHeight ? Math.max(4, y - height - 10) : y + 14}px`;
};

// Shows titles as tooltips without the browser's delay; screen readers use the name of the drawing.
const takeTitles = svg => {
  for (const title of svg.querySelectorAll('title')) {
    title.parentElement.dataset.tip = title.textContent;
    title.remove();
  }
};

// Classes for the type of an element; the other classes identify its series.
const KINDS = new Set(['bar', 'line', 'mark', 'swatch', 'spread', 'band']);
const seriesOf = element => [...element.classList].filter(name => !KINDS.has(name)).sort().join(' ');

class Plot {
  constructor(figure, svg) {
    Object.assign(this, { figure, svg, off: new Set(), at: null });
    const [left, right, top, floor] = svg.dataset.box.split(' ').map(Number);
    this.box = { left, right, top, floor };
    const names = svg.dataset.names && svg.dataset.names.split('\n');
    this.x = new Axis(svg.dataset.x, left, right, names, false);
    this.y = new Axis(svg.dataset.y, floor, top, undefined, svg.dataset.unit === 'time');
    this.parts = [...svg.querySelectorAll('[data-p]')].map(element => ({
      element,
      series: seriesOf(element),
      points: element.dataset.p.split(' ').map(point => point.split(',').map(Number)),
    }));
    this.marks = this.parts.filter(part => part.element.matches('.mark'));
    this.clip();
    this.cross = make('g', { class: 'cross', visibility: 'hidden' });
    this.cross.append(make('line'), make('line'), make('rect'));
    svg.append(this.cross);
    explain(svg, 'Left and right arrow keys move between points, up and down between series; plus and minus zoom, Escape shows the whole plot.');
    svg.addEventListener('pointerdown', event => this.press(event));
    svg.addEventListener('pointermove', event => this.move(event));
    svg.addEventListener('pointerup', event => this.release(event));
    svg.addEventListener('pointercancel', () => { this.begun = null; });
    svg.addEventListener('pointerleave', () => this.leave());
    svg.addEventListener('blur', () => this.leave());
    svg.addEventListener('dblclick', () => this.reset());
    svg.addEventListener('keydown', event => this.key(event));
    this.legend();
  }

  // Clips zoomed elements to the plot area.
  clip() {
    const { left, right, top, floor } = this.box;
    const id = `${this.figure.id}-clip`;
    const path = make('clipPath', { id });
    path.append(make('rect', { x: left - 5, y: top - 5, width: right - left + 10, height: floor - top + 6 }));
    this.svg.prepend(path);
    for (const { element } of this.parts) {
      if (!element.matches('.mark')) element.setAttribute('clip-path', `url(#${id})`);
    }
  }

  // Legend entries with drawn elements toggle their visibility.
  legend() {
    for (const item of this.figure.querySelectorAll('.legend li')) {
      const series = seriesOf(item.querySelector('.swatch'));
      if (!this.parts.some(part => part.series === series)) continue;
      const toggle = make('button', { type: 'button', 'aria-pressed': 'true', title: 'Show or hide' });
      toggle.append(...item.childNodes);
      item.append(toggle);
      toggle.addEventListener('click', () => {
        if (!this.off.delete(series)) this.off.add(series);
        toggle.setAttribute('aria-pressed', String(!this.off.has(series)));
        this.fit(this.y, this.y.whole.log);
      });
    }
  }

  tools() {
    const logarithmic = (axis, name) => {
      const values = () => this.values(axis, true);
      if (axis.names || !values().some(value => value > 0)) return [];
      const made = button(`log ${name}`, `log ${name}: logarithmic ${name === 'x' ? 'horizontal' : 'vertical'} axis`, own => {
        this.fit(axis, !axis.whole.log);
        own.setAttribute('aria-pressed', String(axis.whole.log));
      });
      made.setAttribute('aria-pressed', String(axis.log));
      return [made];
    };
    return [
      ...logarithmic(this.x, 'x'),
      ...logarithmic(this.y, 'y'),
      button('+', 'Zoom in (or drag over a part of the plot)', () => this.scale(0.5)),
      button('−', 'Zoom out', () => this.scale(2)),
      button('whole', 'Show the whole plot', () => this.reset()),
    ];
  }

  values(axis, all) {
    const which = axis === this.x ? 0 : 1;
    const seen = this.parts.filter(part => all || !this.off.has(part.series));
    return seen.flatMap(part => part.element.matches('.band') ? [] : part.points.map(point => point[which]));
  }

  // Sets an axis to show all visible elements, linear or logarithmic.
  fit(axis, log) {
    if (this.off.size === 0 && log === axis.drawn.log) axis.refit();
    else axis.fit(this.values(axis, false), log);
    this.draw();
  }

  reset() {
    this.x.unzoom();
    this.y.unzoom();
    this.draw();
  }

  scale(factor) {
    const centre = this.at ?? { x: (this.box.left + this.box.right) / 2, y: (this.box.top + this.box.floor) / 2 };
    for (const [axis, place] of [[this.x, centre.x], [this.y, centre.y]]) {
      axis.zoom(place + (axis.from - place) * factor, place + (axis.to - place) * factor);
    }
    this.draw();
    if (this.current) this.rest(this.current);
  }

  draw() {
    this.svg.classList.toggle('moved', !this.x.isAsDrawn || !this.y.isAsDrawn || this.off.size > 0);
    for (const { element, series, points } of this.parts) {
      const places = points.map(([x, y]) => [this.x.at(x), this.y.at(y)]);
      const [[x, y], [end] = []] = places;
      let isSeen = !this.off.has(series);
      if (element.matches('.mark')) {
        isSeen &&= this.x.holds(points[0][0]) && this.y.holds(points[0][1]);
        for (const circle of element.children) {
          circle.setAttribute('cx', x.toFixed(1));
          circle.setAttribute('cy', y.toFixed(1));
        }
      } else if (element.matches('.band')) {
        element.setAttribute('x', x.toFixed(1));
        element.setAttribute('width', Math.max(1, end - x).toFixed(1));
      } else {
        element.setAttribute('points', places.map(place => place.map(part => part.toFixed(1)).join()).join(' '));
      }
      element.style.display = isSeen ? '' : 'none';
    }
    this.axes();
    this.leave();
  }

  axes() {
    const { left, right, floor } = this.box;
    const rows = this.y.ticks().flatMap(([value, label]) => {
      const y = this.y.at(value);
      return [
        make('line', { class: 'grid', x1: left, x2: right, y1: y, y2: y }),
        make('text', { class: 'tick', x: left - 8, y: y + 4.5, 'text-anchor': 'end' }, label),
      ];
    });
    this.svg.querySelector('.axis-y').replaceChildren(...rows);
    const columns = this.x.ticks().flatMap(([value, label]) => {
      const x = this.x.at(value);
      return [
        make('line', { class: 'axis', x1: x, x2: x, y1: floor, y2: floor + 4 }),
        make('text', { class: 'tick', x, y: floor + 19, 'text-anchor': x > right - 12 ? 'end' : 'middle' }, label),
      ];
    });
    this.svg.querySelector('.axis-x').replaceChildren(...columns);
  }

  shown() { return this.marks.filter(mark => mark.element.style.display !== 'none'); }

  place(mark) { return { x: this.x.at(mark.points[0][0]), y: this.y.at(mark.points[0][1]) }; }

  // Conversion between coordinates of the window and the drawing.
  inside(event) {
    const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
    return { x, y };
  }

  outside({ x, y }) { return new DOMPoint(x, y).matrixTransform(this.svg.getScreenCTM()); }

  holds({ x, y }) {
    const { left, right, top, floor } = this.box;
    return x >= left - 6 && x <= right + 6 && y >= top - 6 && y <= floor + 6;
  }

  // Shows the crosshair at a point; the tooltip lists all points at its horizontal position, this one first.
  rest(mark, pointer) {
    const { left, right, top, floor } = this.box;
    const at = this.place(mark);
    Object.assign(this, { at, current: mark });
    const [upright, level] = this.cross.children;
    Object.entries({ x1: at.x, x2: at.x, y1: top, y2: floor }).forEach(([key, value]) => upright.setAttribute(key, value));
    Object.entries({ x1: left, x2: right, y1: at.y, y2: at.y }).forEach(([key, value]) => level.setAttribute(key, value));
    this.cross.setAttribute('visibility', 'visible');
    const others = this.shown().filter(other => other !== mark && Math.abs(this.place(other).x - at.x) < 1);
    const lines = [mark, ...others].slice(0, 8).map(other => other.element.dataset.tip);
    const place = pointer ?? this.outside(at);
    showTip(lines, place.x, place.y);
  }

  leave() {
    this.cross.setAttribute('visibility', 'hidden');
    this.at = this.current = null;
    hideTip();
  }

  press(event) {
    // Touch scrolls the page; zooming uses the buttons.
    if (event.pointerType === 'touch' || event.button !== 0 || !this.holds(this.inside(event))) return;
    this.begun = this.inside(event);
    this.svg.setPointerCapture?.(event.pointerId);
    event.preventDefault();
    this.svg.focus({ preventScroll: true });
  }

  // The selected range of a drag: along one axis only if it hardly moved along the other.
  marked(end) {
    const { left, right, top, floor } = this.box;
    const within = (value, low, high) => Math.max(low, Math.min(high, value));
    let [x1, x2] = [this.begun.x, end.x].map(x => within(x, left, right)).sort((a, b) => a - b);
    let [y1, y2] = [this.begun.y, end.y].map(y => within(y, top, floor)).sort((a, b) => a - b);
    const [wide, high] = [x2 - x1 >= 12, y2 - y1 >= 12];
    if (!wide) [x1, x2] = [left, right];
    if (!high) [y1, y2] = [top, floor];
    return wide || high ? { x1, x2, y1, y2 } : null;
  }

  move(event) {
    const place = this.inside(event);
    const area = this.begun && this.marked(place);
    const box = this.cross.lastChild;
    if (area) {
      Object.entries({ x: area.x1, y: area.y1, width: area.x2 - area.x1, height: area.y2 - area.y1 })
        .forEach(([key, value]) => box.setAttribute(key, value));
      this.cross.setAttribute('visibility', 'visible');
      hideTip();
      return;
    }
    box.setAttribute('width', 0);
    const distance = mark => Math.hypot(this.place(mark).x - place.x, (this.place(mark).y - place.y) / 2);
    const nearest = this.shown().sort((a, b) => distance(a) - distance(b))[0];
    if (!nearest || !this.holds(place)) return this.leave();
    this.rest(nearest, { x: event.clientX, y: event.clientY });
  }

  release(event) {
    const area = this.begun && this.marked(this.inside(event));
    this.begun = null;
    this.cross.lastChild.setAttribute('width', 0);
    if (!area) return;
    this.x.zoom(area.x1, area.x2);
    this.y.zoom(area.y1, area.y2);
    this.draw();
  }

  key(event) {
    const act = {
      '+': () => this.scale(0.5), '=': () => this.scale(0.5), '-': () => this.scale(2),
      Escape: () => this.reset(), 0: () => this.reset(),
      ArrowRight: () => this.step(1), ArrowLeft: () => this.step(-1),
      ArrowUp: () => this.change(-1), ArrowDown: () => this.change(1),
      Home: () => this.step(-Infinity), End: () => this.step(Infinity),
    }[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  }

  // Moves to the next point of the same series.
  step(by) {
    const series = (this.current ?? this.shown()[0])?.series;
    const own = this.shown().filter(mark => mark.series === series).sort((a, b) => a.points[0][0] - b.points[0][0]);
    if (own.length === 0) return;
    const index = this.current ? own.indexOf(this.current) + by : by > 0 && by < Infinity ? 0 : by;
    this.rest(own[Math.max(0, Math.min(own.length - 1, index))]);
  }

  // Moves to the nearest point of the next series.
  change(by) {
    const all = [...new Set(this.shown().map(mark => mark.series))];
    if (!this.current) return this.step(1);
    const series = all[(all.indexOf(this.current.series) + by + all.length) % all.length];
    const distance = mark => Math.abs(this.place(mark).x - this.at.x);
    this.rest(this.shown().filter(mark => mark.series === series).sort((a, b) => distance(a) - distance(b))[0]);
  }
}
