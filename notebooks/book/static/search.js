// An excerpt of the search shows words of the article, near those that were sought. The
// theme's own begins with its buttons, and does not find a word by its stem.
document.addEventListener("DOMContentLoaded", () => {
  if (typeof Search === "undefined") return;
  const excerpt = Search.makeSearchSummary;
  Search.htmlToText = (html, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    page.querySelectorAll(".headerlink, script, style, button").forEach((one) => one.remove());
    const article = page.querySelector("article") ?? page.body;
    const place = (anchor && article.querySelector(anchor)) || article;
    return place.textContent.replace(/\s+/g, " ");
  };
  Search.makeSearchSummary = (html, stems, anchor) =>
    excerpt(html, [...stems].map((stem) => stem.replace(/[ei]$/, "")), anchor);
});
