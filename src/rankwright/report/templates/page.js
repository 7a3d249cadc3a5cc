// Draws the page's charts and switches between light and dark. Chart colours are CSS variables, so nothing is redrawn.
"use strict";

const page = {
  /**
   * Draws a Vega-Lite specification into an element and returns its Vega view; shows a message if that fails.
   * Legends have this many columns, 0 for one row; they get fewer until they fit.
   */
  async draw(box, spec, columns = box.clientWidth < 500 ? 1 : 0) {
    const legend = columns ? { columns, labelLimit: box.clientWidth - 60 } : {};
    const description = box.getAttribute("aria-label");
    // `ast` interprets expressions; the page's policy forbids compiling them.
    const options = { mode: "vega-lite", renderer: "svg", actions: false, ast: true, config: { legend } };
    try {
      const result = await vegaEmbed(box, { ...spec, description }, options);
      const edge = box.getBoundingClientRect().right + 1;
      const cut = [...box.querySelectorAll(".role-legend")].some((part) => part.getBoundingClientRect().right > edge);
      if (cut && columns !== 1) {
        result.finalize();
        return page.draw(box, spec, columns ? columns - 1 : 4);
      }
      box.setAttribute("role", "img"); // Vega sets another role
      box.dataset.drawn = "true";
      return result.view;
    } catch (error) {
      const message = document.createElement("p");
      message.textContent = `This chart could not be drawn: ${error.message}`;
      box.replaceChildren(message);
      console.error(error);
      return null;
    }
  },
  /** Returns the JSON in the script element beside an element. */
  data(element) {
    return JSON.parse(element.parentElement.querySelector('script[type="application/json"]').textContent);
  },
};

(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const show = () => {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-pressed", String(dark()));
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    show();
  });
  system.addEventListener("change", show);
  show();

  for (const box of document.querySelectorAll("figure > .chart:not([data-owned])")) {
    page.draw(box, page.data(box));
  }
})();
