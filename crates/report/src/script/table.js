// Tables: sorting by a click on a column's head, filtering by words and conditions, and saving as CSV.

const SIZES = { ns: 1e-9, µs: 1e-6, ms: 1e-3, s: 1, k: 1e3, K: 1024, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18 };
// Number formats of the page: 1,234 or −0.5 or 12.3 µs or 1.2k or 4Mpps or <0.001 or 4.2 (4.1 to 4.3). Anything else is text.
const numberOf = text => {
  const found = text.replaceAll(',', '').replace('−', '-').match(/^[<>]?\+?(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)\s*([a-zµA-Z]*)(?=$|[\s(%])/);
  if (!found) return NaN;
  const [, number, unit] = found;
  return number * (SIZES[unit] ?? (/^[kKMGT](pps|bps|Hz|i?B)$/.test(unit) ? SIZES[unit[0]] : 1));
};
const textOf = cell => cell.textContent.trim();

class Table {
  constructor(table) {
    this.table = table;
    this.heads = [...table.tHead.rows[0].cells];
    this.bodies = [...table.tBodies];
    this.rows = this.bodies.flatMap(body => [...body.rows]).filter(row => !row.matches('.section'));
    this.order = [...this.rows];
    if (this.bodies.length === 1 && this.rows.length > 1) this.heads.forEach((head, column) => this.sortable(head, column));
    // Data tables of plots use the plot's buttons.
    if (this.rows.length > 8 && !table.closest('figure')) this.searchable();
  }

  sortable(head, column) {
    const own = make('button', { type: 'button', class: 'sort', title: 'Sort' });
    own.append(...head.childNodes);
    head.append(own);
    own.addEventListener('click', () => this.sort(head, column));
  }

  // Cycles through ascending, descending and original order; cells without a number come last in each.
  sort(head, column) {
    const next = { ascending: 'descending', descending: null }[head.getAttribute('aria-sort')];
    const way = next === undefined ? 'ascending' : next;
    this.heads.forEach(other => other.removeAttribute('aria-sort'));
    if (way) head.setAttribute('aria-sort', way);
    const sign = way === 'descending' ? -1 : 1;
    const keyed = this.order.map(row => ({ row, text: textOf(row.cells[column]), number: numberOf(textOf(row.cells[column])) }));
    const compare = (a, b) => {
      const [one, other] = [Number.isNaN(a.number), Number.isNaN(b.number)];
      if (one !== other) return one - other;
      return sign * (one ? a.text.localeCompare(b.text, 'en', { numeric: true }) : a.number - b.number);
    };
    if (way) keyed.sort(compare);
    this.bodies[0].append(...keyed.map(({ row }) => row));
  }

  searchable() {
    const bar = make('div', { class: 'search' });
    const label = this.table.closest('[aria-label]')?.getAttribute('aria-label').replace(/, table$/, '') ?? 'rows';
    this.input = make('input', {
      type: 'search', placeholder: 'Filter rows', 'aria-label': `Filter ${label}`, spellcheck: 'false',
      title: 'Rows with all of these words; a column’s name with = < > <= >= != and a value is a condition',
    });
    this.count = make('output', { 'aria-live': 'polite' });
    bar.append(this.input, this.count, button('CSV', `Save ${label} as CSV`, () => this.save()));
    (this.table.closest('.scroll') ?? this.table).before(bar);
    this.input.addEventListener('input', () => this.filter());
  }

  // Returns a predicate on rows for one search term.
  term(words) {
    const found = words.match(/^(.+?)(<=|>=|!=|=|<|>)(.+)$/);
    const plain = text => text.toLowerCase().replace(/[\s,%]/g, '');
    const column = found ? this.heads.findIndex(head => plain(textOf(head)).startsWith(plain(found[1]))) : -1;
    const anywhere = found && column < 0 ? this.heads.findIndex(head => plain(textOf(head)).includes(plain(found[1]))) : column;
    if (!found || anywhere < 0) {
      // The section heading above a row counts as part of the row.
      const fullText = row => (row.parentElement.querySelector('.section')?.textContent ?? '') + row.textContent;
      return row => fullText(row).toLowerCase().includes(words.toLowerCase());
    }
    const wanted = numberOf(found[3]);
    return row => {
      const text = textOf(row.cells[anywhere]);
      const isNumber = !Number.isNaN(wanted) && !Number.isNaN(numberOf(text));
      const [a, b] = isNumber ? [numberOf(text), wanted] : [text.toLowerCase(), found[3].toLowerCase()];
      if (!isNumber && '<>'.includes(found[2][0])) return false;
      return { '=': a === b, '!=': a !== b, '<': a < b, '>': a > b, '<=': a <= b, '>=': a >= b }[found[2]];
    };
  }

  filter() {
    const tests = this.input.value.split(/\s+/).filter(Boolean).map(words => this.term(words));
    for (const row of this.rows) row.hidden = !tests.every(test => test(row));
    for (const body of this.bodies) {
      const own = [...body.rows].filter(row => !row.matches('.section'));
      body.hidden = own.length > 0 && own.every(row => row.hidden);
    }
    const seen = this.rows.filter(row => !row.hidden).length;
    this.count.textContent = tests.length ? `${seen} of ${this.rows.length} rows` : '';
  }

  save() {
    const name = this.table.closest('section')?.getAttribute('aria-labelledby') ?? 'table';
    const rows = this.bodies.flatMap(body => [...body.rows]).filter(row => !row.hidden && !row.matches('.section'));
    saveText(`${name}.csv`, csv([this.heads, ...rows.map(row => [...row.cells])]), 'text/csv');
  }
}
