// subscribe calls heard with each event of a topic. All pages share one connection by a worker, as a browser opens few to one server.
// Without such workers, a page has a connection of its own while it is visible.
export function subscribe(base, topic, heard) {
  if (typeof SharedWorker === "function") {
    const worker = new SharedWorker(`${base}/static/worker.js`, { type: "module", name: base });
    worker.port.onmessage = ({ data }) => heard(data);
    const tell = (kind) => worker.port.postMessage({ kind, base, topic });
    tell("hello");
    setInterval(() => tell("alive"), 20000);
    addEventListener("pagehide", () => tell("bye"));
    addEventListener("pageshow", (event) => event.persisted && tell("hello"));
    return;
  }
  let source;
  const connect = () => {
    source?.close();
    source = document.hidden ? null : open(base, [topic], heard);
  };
  document.addEventListener("visibilitychange", connect);
  connect();
}

// open opens a connection for topics.
export function open(base, topics, heard) {
  const query = new URLSearchParams(topics.filter(Boolean).map((topic) => ["topic", topic]));
  const source = new EventSource(`${base}/live?${query}`);
  source.onopen = () => heard({ kind: "open" });
  source.onerror = () => heard({ kind: "error" });
  source.addEventListener("changed", (event) => heard({ kind: "changed", topic: JSON.parse(event.data) }));
  source.addEventListener("cluster", (event) => heard({ kind: "cluster", ...JSON.parse(event.data) }));
  return source;
}
