// The list of VidraResources: blocks of rows that are read when they come near the view, and emptied when they are far from it.
import { morph } from "./morph.js";

const far = 6; // blocks that stay, above and below the view

export function startRows(base, say) {
  const table = document.getElementById("table");
  const form = document.getElementById("filters");
  const inView = new Set();

  const address = (part, block) => {
    const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    const url = new URL(`${base}/?${query}`, location.href);
    if (part) url.searchParams.set("part", part);
    if (block) url.searchParams.set("block", block);
    return url;
  };
  const number = (body) => Number(body.dataset.block);
  const height = (body, pixels) => {
    body.querySelector(".later td").style.height = `${pixels}px`; // by script, as the policy forbids style attributes
  };

  async function read(body) {
    if (body.reading) return;
    body.reading = true;
    try {
      const response = await fetch(address("rows", number(body)));
      if (response.ok) {
        morph(body, await response.text());
        body.dataset.read = "yes";
        body.pixels = body.offsetHeight;
      }
    } catch {}
    body.reading = false;
  }
  function empty(body) {
    const rows = body.querySelectorAll("th").length;
    body.pixels = body.offsetHeight || body.pixels;
    delete body.dataset.read;
    morph(body, `<tr class="later"><td colspan="8"><span class="hidden">${rows} more VidraResources</span></td></tr>`);
    height(body, body.pixels);
  }
  const watcher = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) inView.add(target);
      else inView.delete(target);
    }
    const seen = [...inView].map(number);
    for (const body of table.querySelectorAll("tbody")) {
      if (inView.has(body) && !body.dataset.read) read(body);
      else if (body.dataset.read && seen.length && (number(body) < Math.min(...seen) - far || number(body) > Math.max(...seen) + far)) empty(body);
    }
  }, { rootMargin: "1200px 0px" });

  function begin() {
    inView.clear();
    watcher.disconnect();
    const first = table.querySelector("tbody");
    if (first) first.dataset.read = "yes";
    const usual = first ? first.offsetHeight / Math.max(1, first.querySelectorAll("th").length) : 60;
    for (const body of table.querySelectorAll("tbody")) {
      if (body.querySelector(".later")) height(body, usual * Number(body.dataset.rows));
      watcher.observe(body);
    }
  }

  async function all() {
    const response = await fetch(address("table"));
    if (!response.ok) return;
    table.innerHTML = await response.text();
    begin();
  }
  let running, again;
  async function refresh() {
    if (running) {
      again = true;
      return;
    }
    running = true;
    try {
      const summary = await fetch(address("summary"));
      if (summary.ok) morph(document.getElementById("summary"), await summary.text());
      const current = document.querySelector(".tile[aria-current] .number");
      const shown = table.querySelector("table");
      if (!shown || !current || Number(current.textContent) !== Number(shown.dataset.total)) await keepPlace(all);
      else await Promise.all([...inView].filter((body) => body.dataset.read).map(read));
    } catch {}
    setTimeout(() => {
      running = false;
      if (again) {
        again = false;
        refresh();
      }
    }, 400);
  }
  // keepPlace has the row at the top of the view stay there.
  async function keepPlace(change) {
    const top = scrollY;
    await change();
    scrollTo(0, top);
  }

  let waiting;
  const filter = () => {
    clearTimeout(waiting);
    waiting = setTimeout(async () => {
      history.replaceState(null, "", address());
      const summary = await fetch(address("summary"));
      morph(document.getElementById("summary"), await summary.text());
      await all();
      const total = table.querySelector("table")?.dataset.total ?? 0;
      say(`${total} VidraResources`);
    }, 150);
  };
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    filter();
  });
  document.getElementById("summary").addEventListener("click", (event) => {
    const tile = event.target.closest("[data-filter]");
    if (!tile || event.metaKey || event.ctrlKey) return;
    event.preventDefault();
    form.elements.state.value = tile.dataset.filter;
    filter();
  });
  begin();
  return { refresh };
}
