// Elements are built from parts and text, never from markup: a name is a name, whatever it contains.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes, listeners (on...) and children; children are elements or text. */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for drawings. */
export function s(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** The top of a page: its name, and what it is for. */
export const head = (title, lead) =>
  h("div", { class: "head" }, h("h1", {}, title), h("p", { class: "lead" }, lead));

/** A table that scrolls by itself; a column of numbers is written in brackets, as ["Limit"]. */
export function table(caption, columns, rows) {
  const heads = columns.map((each) => h("th", { scope: "col", class: Array.isArray(each) ? "number" : null }, `${each}`));
  return h("div", { class: "scroll" }, h("table", { class: "brokers" }, h("caption", { class: "sr" }, caption), h("thead", {}, h("tr", {}, heads)), rows));
}

/** Replace what an element holds. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat().filter((child) => child != null && child !== false));
  return element;
}

/** Set an element's text, if it is another one: an unchanged page is not announced again. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Set an attribute, or remove it with null. */
export function setAttribute(element, name, value) {
  if (value == null || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

/** Keep a container's children in step with items: those that stay are updated, not rebuilt. */
export function keyed(container, items, keyOf, create) {
  const known = new Map([...container.children].map((child) => [child.dataset.key, child]));
  const wanted = items.map((item) => {
    const key = keyOf(item);
    const element = known.get(key) ?? Object.assign(create(item), {});
    element.dataset.key = key;
    element.update(item);
    return element;
  });
  const kept = new Set(wanted);
  for (const child of [...container.children]) if (!kept.has(child)) child.remove();
  wanted.forEach((element, index) => {
    if (container.children[index] !== element) {
      container.insertBefore(element, container.children[index] ?? null);
    }
  });
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value != null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child != null && child !== false));
  return element;
}
