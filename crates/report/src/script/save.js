// Saves a figure: its data as CSV, its drawing with title and legend as SVG and PNG.

const saveBlob = (name, blob) => {
  const link = make('a', { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
};
const saveText = (name, text, type) => saveBlob(name, new Blob([text], { type: `${type};charset=utf-8` }));

// Converts numbers for programs: 1,234.5 and −1 become 1234.5 and -1, and missing values become empty.
const csv = rows => rows.map(cells => cells.map(cell => {
  let text = textOf(cell);
  if (/^−?\d{1,3}(,\d{3})+(\.\d+)?$|^−[\d.]+$/.test(text)) text = text.replaceAll(',', '').replace('−', '-');
  if (text === '–') text = '';
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}).join()).map(line => `${line}\r\n`).join('');

const PAINT = ['fill', 'stroke', 'stroke-width', 'stroke-dasharray', 'opacity', 'font-size', 'font-weight', 'font-family', 'display'];

// The drawing as a standalone file with inline styles, title and legend.
const drawing = figure => {
  const svg = figure.querySelector('svg');
  const { width, height } = svg.viewBox.baseVal?.width ? svg.viewBox.baseVal : svg.getBoundingClientRect();
  const copy = svg.cloneNode(true);
  const paint = (from, to) => {
    const look = getComputedStyle(from);
    PAINT.forEach(name => to.setAttribute(name, look.getPropertyValue(name)));
    [...from.children].forEach((child, index) => paint(child, to.children[index]));
  };
  paint(svg, copy);
  copy.querySelector('.cross')?.remove();
  const style = element => getComputedStyle(element);
  const text = (x, y, words, weight) => make('text', {
    x, y, fill: style(figure).color, 'font-family': style(figure).fontFamily, 'font-size': 13, 'font-weight': weight,
  }, words);
  const head = [text(0, 14, textOf(figure.querySelector('h3')), 600)];
  let [x, y] = [0, 36];
  for (const item of figure.querySelectorAll('.legend li')) {
    if (item.querySelector('[aria-pressed=false]')) continue;
    const words = textOf(item);
    const wide = 30 + 7.2 * words.length;
    if (x > 0 && x + wide > width) [x, y] = [0, y + 18];
    const swatch = style(item.querySelector('.swatch'));
    // The swatch of a dashed line is a border.
    const fill = swatch.backgroundColor === 'rgba(0, 0, 0, 0)' ? swatch.borderTopColor : swatch.backgroundColor;
    head.push(make('rect', { x, y: y - 10, width: 12, height: 12, rx: 2, fill }), text(x + 17, y, words, 400));
    x += wide;
  }
  const top = x > 0 ? y + 12 : 26;
  const [wide, high] = [width + 32, height + top + 32];
  const whole = make('svg', { xmlns: 'http://www.w3.org/2000/svg', width: wide, height: high, viewBox: `-16 -16 ${wide} ${high}` });
  whole.append(make('rect', { x: -16, y: -16, width: wide, height: high, fill: style(figure).backgroundColor }), ...head);
  Object.entries({ x: 0, y: top, width, height }).forEach(([key, value]) => copy.setAttribute(key, value));
  whole.append(copy);
  return { text: new XMLSerializer().serializeToString(whole), wide, high };
};

const savePng = figure => {
  const { text, wide, high } = drawing(figure);
  const image = new Image();
  image.onload = () => {
    const canvas = make('canvas', { width: 2 * wide, height: 2 * high });
    canvas.getContext('2d').drawImage(image, 0, 0, 2 * wide, 2 * high);
    canvas.toBlob(blob => saveBlob(`${figure.id}.png`, blob));
  };
  image.src = `data:image/svg+xml,${encodeURIComponent(text)}`;
};

const savers = figure => {
  const title = textOf(figure.querySelector('h3'));
  const drawn = figure.querySelector('svg') ? [
    button('SVG', `Save ${title} as SVG`, () => saveText(`${figure.id}.svg`, drawing(figure).text, 'image/svg+xml')),
    button('PNG', `Save ${title} as PNG`, () => savePng(figure)),
  ] : [];
  const rows = () => [...figure.querySelector('table').rows].map(row => [...row.cells]);
  return [...drawn, button('CSV', `Save the data of ${title} as CSV`, () => saveText(`${figure.id}.csv`, csv(rows()), 'text/csv'))];
};
