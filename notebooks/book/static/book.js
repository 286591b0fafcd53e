// What the theme leaves undone.

document.addEventListener("DOMContentLoaded", () => {
  // The side bar is a landmark, an empty corner is no heading.
  const bar = document.getElementById("pst-primary-sidebar");
  bar?.setAttribute("role", "complementary");
  bar?.setAttribute("aria-label", "Contents");
  for (const corner of document.querySelectorAll("th")) {
    if (!corner.textContent.trim()) corner.outerHTML = "<td></td>";
  }

  // An excerpt of the search begins with the article, not with the buttons above it, and
  // finds a word by its stem.
  if (typeof Search === "undefined") return;
  const excerpt = Search.makeSearchSummary;
  Search.htmlToText = (html, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    page.querySelectorAll(".headerlink, script, style, button").forEach((one) => one.remove());
    const article = page.querySelector("article") ?? page.body;
    const place = (anchor && article.querySelector(anchor)) || article;
    place.querySelectorAll("div.math").forEach((one) => one.remove());
    for (const one of place.querySelectorAll(".math")) {
      one.textContent = one.textContent.replace(/\\\W|\\[a-z]+|[{}]/gi, "");
    }
    return place.textContent.replace(/\s+/g, " ");
  };
  Search.makeSearchSummary = (html, stems, anchor) =>
    excerpt(html, [...stems].map((stem) => stem.replace(/[ei]$/, "")), anchor);
});
