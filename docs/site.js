// What mdBook's pages leave out for readers who do not see them or have no pointer.
(() => {
  document.getElementById("mdbook-menu-bar")?.setAttribute("role", "banner");
  // The switch of the contents is a label there, which no key reaches.
  const label = document.getElementById("mdbook-sidebar-toggle");
  const box = document.getElementById("mdbook-sidebar-toggle-anchor");
  if (label && box) {
    const button = document.createElement("button");
    button.type = "button";
    for (const { name, value } of label.attributes) if (name !== "for") button.setAttribute(name, value);
    button.append(...label.childNodes);
    button.addEventListener("click", () => {
      box.click();
      button.setAttribute("aria-expanded", String(box.checked));
    });
    label.replaceWith(button);
  }
  // Boxes that scroll can be scrolled by keys.
  for (const wide of document.querySelectorAll("pre > code, .table-wrapper")) wide.tabIndex = 0;
  // The corner of a table that names its rows is no heading.
  for (const head of document.querySelectorAll("th:empty")) head.replaceWith(document.createElement("td"));
})();
