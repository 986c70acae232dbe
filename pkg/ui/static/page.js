import { subscribe } from "./live.js";
import { morph } from "./morph.js";
import { startRows } from "./rows.js";

const { base, topic } = document.body.dataset;
const $ = (id) => document.getElementById(id);
let shownAway = "", ended = false;

// say shows a short message, and screen readers read it.
let saying;
function say(text) {
  $("toast").textContent = text;
  clearTimeout(saying);
  saying = setTimeout(() => ($("toast").textContent = ""), 6000);
}

function banner(text, good) {
  const b = $("banner");
  if (b.textContent === text && !b.hidden === !!text) return;
  b.textContent = text;
  b.hidden = !text;
  b.classList.toggle("good", !!good);
}

function pulse(state, word) {
  $("pulse").dataset.state = state;
  $("pulse-word").textContent = word;
}

// refresh reads a part of the page again. Changes while it is read cause one further read.
const reading = new Map();
async function refresh(element, part) {
  if (reading.has(element)) {
    reading.set(element, true);
    return;
  }
  reading.set(element, false);
  const url = new URL(location.href);
  url.searchParams.set("part", part);
  try {
    const response = await fetch(url);
    if (response.ok) {
      const key = (m) => `${m.querySelector("time")?.dateTime} ${m.querySelector(".edit").textContent}${m.querySelector(".outcome").textContent}`;
      const before = new Set([...element.querySelectorAll(".moment")].map(key));
      morph(element, await response.text());
      if (before.size) for (const m of element.querySelectorAll(".moment")) m.classList.toggle("new", !before.has(key(m)));
      ages();
    }
  } catch {} // the connection of live shows that the server is away
  setTimeout(() => {
    const again = reading.get(element);
    reading.delete(element);
    if (again) refresh(element, part);
  }, 150);
}

const rows = $("table") && $("filters") ? startRows(base, say) : null;

function refreshAll() {
  rows?.refresh();
  for (const element of document.querySelectorAll("[data-live]")) if (element.dataset.live) refresh(element, element.dataset.live);
}

subscribe(base, topic, (event) => {
  switch (event.kind) {
    case "open":
      if (ended) {
        ended = false;
        banner("Connected again. The page is up to date.", true);
        setTimeout(() => banner(""), 6000);
        refreshAll();
      }
      break;
    case "error":
      ended = true;
      pulse("away", "Disconnected");
      banner("vidra ui does not answer. If it has ended, start it again, and open the address that it prints.");
      break;
    case "cluster":
      if (event.away) {
        pulse("away", "Reconnecting");
        banner(`The API server does not answer since ${event.away.replace("T", " ").replace("Z", " UTC")}. The page shows the state from then, and reconnects by itself.`);
      } else if (shownAway) {
        banner("Connected again. The page is up to date.", true);
        setTimeout(() => banner(""), 6000);
        refreshAll();
      }
      if (!event.away) event.live ? pulse("live", "Live updates") : pulse("start", event.waiting ? `Connecting to ${event.waiting}` : "Connecting");
      shownAway = event.away;
      break;
    case "changed":
      refreshAll();
  }
});

// ages writes relative times anew.
function ages() {
  const units = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];
  for (const t of document.querySelectorAll("time")) {
    const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(t.dateTime)) / 1000));
    const at = units.findIndex(([, size]) => seconds >= size * (size === 60 ? 2 : 1) || size === 1);
    const [unit, size] = units[at];
    const text = `${Math.floor(seconds / size)}${unit}${"age" in t.dataset ? "" : " ago"}`;
    if (t.textContent !== text) t.textContent = text;
  }
}
setInterval(ages, 5000);

// On a phone, the filters that are seldom used are folded.
document.addEventListener("click", (event) => {
  const more = event.target.closest(".more-filters");
  if (more) more.setAttribute("aria-expanded", String(more.getAttribute("aria-expanded") !== "true"));
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const text = button.parentElement.querySelector("code").textContent;
  try {
    await navigator.clipboard.writeText(text);
    say("Copied.");
  } catch {
    getSelection().selectAllChildren(button.parentElement.querySelector("code"));
    say("Selected: copy it with the keyboard.");
  }
});

// What an object owns is read when it is opened.
document.addEventListener("toggle", async (event) => {
  const details = event.target;
  if (!details.open || !details.dataset?.src || details.dataset.read) return;
  details.dataset.read = "yes";
  const response = await fetch(details.dataset.src);
  const text = await response.text();
  if (response.ok) morph(details.querySelector(".children"), text);
  else {
    const page = new DOMParser().parseFromString(text, "text/html");
    details.querySelector(".children").textContent = page.querySelector("main p")?.textContent ?? "This cannot be read.";
    delete details.dataset.read;
  }
}, true);

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.matches("[data-act]")) return;
  event.preventDefault();
  const response = await fetch(`${form.action}?part=result`, { method: "POST", body: new URLSearchParams(new FormData(form)) });
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  say([...page.querySelectorAll("p")].map((p) => p.textContent.trim()).join(" "));
  refreshAll();
});

// The search of an inventory, without a reload.
let searching;
document.addEventListener("input", (event) => {
  const form = event.target.closest("[data-inventory]");
  if (!form) return;
  clearTimeout(searching);
  searching = setTimeout(() => {
    const url = new URL(location.href);
    url.searchParams.set("objects", event.target.value);
    url.searchParams.delete("number");
    history.replaceState(null, "", url);
    refresh($("inventory"), "inventory");
  }, 200);
});

// A file is judged where it is dropped, on any page.
async function judge(file) {
  const data = new FormData();
  data.set("file", file.name);
  data.set("text", await file.text());
  data.set("vidraresource", document.querySelector("#dropzone [name=vidraresource]")?.value ?? "");
  const at = $("verdict");
  if (!at) {
    const response = await fetch(`${base}/forecast`, { method: "POST", body: data });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    $("main").replaceChildren(...page.querySelector("main").childNodes);
    document.title = page.title;
    history.pushState(null, "", `${base}/forecast`);
    return;
  }
  morph(at, '<p class="quiet">The API server judges it by dry runs…</p>');
  try {
    const response = await fetch(`${base}/forecast?part=verdict`, { method: "POST", body: data });
    morph(at, await response.text());
    const names = [...at.querySelectorAll("[data-from-file]")].map((verdict) => verdict.dataset.fromFile);
    document.querySelector("#dropzone [name=vidraresource]").placeholder = names.length ? `${names.join(", ")} (from the file)` : "a new one";
  } catch {
    morph(at, '<p class="warning">vidra ui does not answer: drop the file again when it does.</p>');
  }
}
const isFile = (event) => event.dataTransfer?.types.includes("Files");
addEventListener("dragover", (event) => {
  if (!isFile(event)) return;
  event.preventDefault();
  $("drop").hidden = false;
});
addEventListener("dragleave", (event) => event.relatedTarget || ($("drop").hidden = true));
addEventListener("drop", (event) => {
  if (!isFile(event)) return;
  event.preventDefault();
  $("drop").hidden = true;
  if (event.dataTransfer.files[0]) judge(event.dataTransfer.files[0]);
});
addEventListener("popstate", () => location.reload());
document.addEventListener("change", (event) => event.target.id === "file" && event.target.files[0] && judge(event.target.files[0]));
document.addEventListener("submit", (event) => event.target.id === "dropzone" && event.preventDefault());
