// The copy button of an example copies what one types: without prompts, and without the output.
"use strict";

document.addEventListener(
  "click",
  (event) => {
    const button = event.target.closest?.('button[data-md-type="copy"]');
    const code = button?.closest("pre")?.querySelector("code");
    const lines = code?.textContent.split("\n") ?? [];
    if (!lines.some((line) => line.startsWith(">>> "))) return;
    const typed = lines.filter((line) => /^(>>>|\.\.\.)( |$)/.test(line)).map((line) => line.slice(4));
    button.dataset.clipboardText = typed.join("\n") + "\n";
  },
  true // before the button's own handler
);
