// A flame graph: clicking a call, or pressing Enter, expands it to the full width; arrow keys move between calls.

class Flame {
  constructor(svg) {
    Object.assign(this, { svg, root: [0, 100], current: null });
    this.calls = [...svg.querySelectorAll('.call')].map(element => {
      const [left, width] = element.dataset.at.split(' ').map(Number);
      return { element, left, width, y: Number(element.getAttribute('y')) };
    });
    explain(svg, 'Arrow keys go from call to call; Enter gives one the whole width, Escape shows all.');
    const at = event => this.calls.find(call => call.element === event.target.closest('.call'));
    svg.addEventListener('pointermove', event => {
      const call = at(event);
      if (call) showTip([call.element.dataset.tip], event.clientX, event.clientY);
      else hideTip();
    });
    svg.addEventListener('pointerleave', hideTip);
    svg.addEventListener('blur', () => this.rest(null));
    svg.addEventListener('click', event => {
      const call = at(event);
      if (call) this.zoom(call);
    });
    svg.addEventListener('keydown', event => this.key(event));
  }

  // Callers and callees keep their position above or below this call.
  zoom(call) {
    this.root = call ? [call.left, call.width] : [0, 100];
    const [from, wide] = this.root;
    for (const { element, left, width } of this.calls) {
      const [begin, end] = [Math.max(left, from), Math.min(left + width, from + wide)];
      element.style.display = end - begin > wide * 1e-6 ? '' : 'none';
      element.setAttribute('x', `${(begin - from) / wide * 100}%`);
      element.setAttribute('width', `${Math.max(0, end - begin) / wide * 100}%`);
      // The call may be wide enough for its name now.
      if (!element.querySelector('text') && end - begin > wide * 0.015) {
        element.append(make('text', { x: 4, y: 14 }, element.dataset.tip.replace(/: [^:]*$/, '')));
      }
    }
  }

  tools() { return [button('whole', 'Show the whole graph, all calls', () => this.zoom(null))]; }

  rest(call) {
    this.current?.element.classList.remove('current');
    this.current = call;
    if (!call) return hideTip();
    call.element.classList.add('current');
    const { left, bottom } = call.element.getBoundingClientRect();
    showTip([call.element.dataset.tip], left, bottom);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const now = this.current;
    const seen = this.calls.filter(call => call.element.style.display !== 'none');
    const widest = calls => calls.sort((a, b) => b.width - a.width)[0];
    const level = () => seen.filter(call => call.y === now.y).sort((a, b) => a.left - b.left);
    const beside = by => level()[level().indexOf(now) + by];
    const lowest = () => widest(seen.filter(call => call.y === Math.max(...seen.map(other => other.y))));
    // All rows have the same height: the next row above or below.
    const heights = [...new Set(this.calls.map(call => call.y))].sort((a, b) => a - b);
    const step = by => heights[heights.indexOf(now.y) + by];
    const above = () => widest(seen.filter(call => call.y === step(-1) && call.left >= now.left - 1e-3
      && call.left + call.width <= now.left + now.width + 1e-2));
    const below = () => seen.find(call => call.y === step(1) && call.left <= now.left + 1e-3
      && call.left + call.width >= now.left + now.width - 1e-2);
    const next = { ArrowUp: above, ArrowDown: below, ArrowLeft: () => beside(-1), ArrowRight: () => beside(1) }[event.key];
    if (next) {
      const call = now ? next() : lowest();
      if (call) this.rest(call);
    } else if (event.key === 'Enter' && now) {
      this.zoom(now);
    } else if (event.key === 'Escape') {
      this.zoom(null);
    } else {
      return;
    }
    event.preventDefault();
  }
}
