// morph makes the children of an element those of a template, and keeps the elements that are the same: the focus, the selection,
// open details and the place in a scrolled part stay. Elements with an id are matched by it.
export function morph(target, html) {
  const wanted = document.createElement("template");
  wanted.innerHTML = html; // scripts in it do not run, and the Content-Security-Policy permits none
  children(target, wanted.content);
}

function children(target, wanted) {
  let at = target.firstChild;
  for (const next of [...wanted.childNodes]) {
    const found = match(at, next);
    if (!found) {
      target.insertBefore(next, at);
      continue;
    }
    while (at && at !== found) {
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    }
    at = found.nextSibling;
    update(found, next);
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

// match is the next sibling that can become the wanted node.
function match(at, wanted) {
  if (wanted.id) {
    for (let n = at; n; n = n.nextSibling) if (n.id === wanted.id) return n;
    return null;
  }
  return at && !at.id && at.nodeType === wanted.nodeType && at.nodeName === wanted.nodeName ? at : null;
}

function update(node, wanted) {
  if (node.nodeType !== Node.ELEMENT_NODE) {
    if (node.nodeValue !== wanted.nodeValue) node.nodeValue = wanted.nodeValue;
    return;
  }
  if (node.isEqualNode(wanted)) return;
  for (const { name } of [...node.attributes]) if (!wanted.hasAttribute(name) && name !== "open") node.removeAttribute(name);
  for (const { name, value } of wanted.attributes) if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  const details = node.closest("details");
  if (details && details.open && node.classList.contains("children")) return; // what it owns was read
  if (node.tagName === "INPUT") return; // what the user types stays
  children(node, wanted);
}
