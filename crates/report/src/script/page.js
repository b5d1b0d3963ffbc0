// Entry point: adds controls to plots and tables. Without this script the page is complete, readable and printable.

document.body.append(tip);
for (const figure of document.querySelectorAll('figure[id]')) {
  const svg = figure.querySelector('svg');
  const tools = make('div', { class: 'tools' });
  if (svg) {
    takeTitles(svg);
    if (svg.dataset.box) tools.append(...new Plot(figure, svg).tools());
    else if (svg.matches('.flame')) tools.append(...new Flame(svg).tools());
    else {
      svg.addEventListener('pointermove', event => {
        const { tip: words } = event.target.closest('[data-tip]')?.dataset ?? {};
        if (words) showTip([words], event.clientX, event.clientY);
        else hideTip();
      });
      svg.addEventListener('pointerleave', hideTip);
    }
  }
  tools.append(make('span', { class: 'gap' }), ...savers(figure));
  figure.querySelector('figcaption').after(tools);
}
for (const table of document.querySelectorAll('table')) if (table.tHead && table.tBodies.length) new Table(table);
