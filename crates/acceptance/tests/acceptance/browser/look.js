// Inspects the layout of a page: whether all plots are drawn and no text is cut off.
const box = element => element.getBoundingClientRect();
const plots = [...document.querySelectorAll('figure > svg')];
const empty = plots.filter(plot => box(plot).width < 200 || box(plot).height < 20
    || !plot.querySelector('rect, polyline, circle')).length;
// Names in a flame graph are clipped to their calls, so they are not checked.
const cut = plots.flatMap(plot => [...plot.querySelectorAll('text:not(.call text)')].filter(text => {
    const [inner, outer] = [box(text), box(plot)];
    return inner.left < outer.left - 2 || inner.right > outer.right + 2
        || inner.top < outer.top - 2 || inner.bottom > outer.bottom + 2;
}).map(text => text.textContent));
const light = getComputedStyle(document.body).backgroundColor.match(/\d+/g).slice(0, 3).every(part => part > 200);
const wider = document.documentElement.scrollWidth - document.documentElement.clientWidth;
const figures = document.querySelectorAll('figure').length;
return { plots: plots.length, figures, empty, cut, light, wider };
