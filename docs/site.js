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
  // Boxes that scroll can be scrolled by keys, and fade out at the right as long as there is more.
  for (const wide of document.querySelectorAll("pre > code, .table-wrapper")) {
    wide.tabIndex = 0;
    const mark = () => wide.classList.toggle("more", wide.scrollLeft + wide.clientWidth < wide.scrollWidth - 2);
    wide.addEventListener("scroll", mark, { passive: true });
    new ResizeObserver(mark).observe(wide);
  }
  // Long names in tables may be broken after a dot or an underscore, so that columns fit a phone.
  for (const code of document.querySelectorAll("td > code")) {
    const parts = code.textContent.split(/(?<=[._])/);
    if (code.childElementCount === 0) code.replaceChildren(...parts.flatMap((part) => [part, document.createElement("wbr")]).slice(0, -1));
  }
  // The corner of a table that names its rows is no heading.
  for (const head of document.querySelectorAll("th:empty")) head.replaceWith(document.createElement("td"));
})();
