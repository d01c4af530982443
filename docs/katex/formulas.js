// Typeset the formulas of a page: Markdown's $…$ and $$…$$, which the build leaves as \(…\) and \[…\].
document$.subscribe(() => {
  for (const element of document.querySelectorAll(".arithmatex")) {
    const text = element.textContent.trim();
    const isBlock = text.startsWith("\\[");
    katex.render(text.slice(2, -2), element, { displayMode: isBlock, throwOnError: false });
  }
});
