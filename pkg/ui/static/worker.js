// A worker that all pages share: one connection for the topics of all.
import { open } from "./live.js";

const silence = 150000; // a page in the background may be silent for a minute
const pages = new Map(); // from port to {topic, seen}
let source, subscribed = "", last, base;

self.onconnect = ({ ports: [port] }) => {
  port.onmessage = ({ data }) => {
    base = data.base;
    if (data.kind === "bye") pages.delete(port);
    else pages.set(port, { topic: data.topic, seen: Date.now() });
    const kept = connect();
    if (data.kind === "hello" && last) port.postMessage({ ...last, live: last.live && kept });
  };
  port.start();
};

// connect has a connection for the topics of all pages, and returns whether it was there.
function connect() {
  for (const [port, page] of pages) if (Date.now() - page.seen > silence) pages.delete(port);
  const topics = [...new Set([...pages.values()].map((page) => page.topic))].sort();
  const wanted = topics.join("\n");
  if (pages.size === 0) {
    source?.close();
    source = undefined;
    return false;
  }
  if (source && source.readyState !== EventSource.CLOSED && wanted === subscribed) return true;
  const before = source;
  subscribed = wanted;
  source = open(base, topics, (event) => {
    if (event.kind === "open") before?.close();
    if (event.kind === "cluster") last = event;
    for (const [port, page] of pages) if (event.kind !== "changed" || event.topic === page.topic) port.postMessage(event);
    // What changed while the connection was replaced may have been missed.
    if (event.kind === "open") for (const [port, page] of pages) port.postMessage({ kind: "changed", topic: page.topic });
  });
  return false;
}
