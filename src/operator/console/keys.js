// The keys of the console, and lists that load themselves again. Every page works without this file.
"use strict";
(() => {
  const list = document.getElementById("key_list");
  const isField = (element) => element.isContentEditable || /^(INPUT|SELECT|TEXTAREA)$/.test(element.tagName);

  // "g" waits this long for the letter of a page.
  const GO_MILLIS = 1500;
  let goUntil = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.repeat) return;
    if (isField(event.target) || !list || list.open) return;
    const goes = event.timeStamp < goUntil;
    goUntil = 0;
    const link = goes && /^[a-z]$/.test(event.key) && document.querySelector(`nav a[data-key="${event.key}"]`);
    if (link) {
      location.assign(link.href);
    } else if (event.key === "/") {
      const search = document.getElementById("q");
      search.focus();
      search.select();
    } else if (event.key === "?") {
      list.showModal();
    } else if (event.key === "g") {
      goUntil = event.timeStamp + GO_MILLIS;
      return;
    } else {
      return;
    }
    event.preventDefault();
  });

  const seconds = Number(document.body.dataset.refresh);
  if (!(seconds > 0)) return;
  const main = document.getElementById("content");
  let isTyped = false;
  main.addEventListener("input", () => { isTyped = true; });
  // Nobody loses a field, a place or a text that they work with.
  const isBusy = () => {
    const active = document.activeElement;
    return document.hidden || isTyped || list?.open || (active !== main && main.contains(active))
      || !getSelection().isCollapsed || main.querySelector("details[open], .plot:hover") !== null;
  };
  const loadAgain = async () => {
    try {
      if (!isBusy()) {
        // The server does not count it as a use of the session.
        const answer = await fetch(location.href, { headers: { "Minitill-Refresh": "1" }, redirect: "manual" });
        if (answer.type === "opaqueredirect") return location.reload();
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const content = page.getElementById("content");
        if (answer.ok && content && !isBusy()) {
          main.replaceChildren(...content.childNodes);
          document.dispatchEvent(new Event("loaded-again"));
        }
      }
    } catch {
      // The server may be away. The next time may find it.
    }
    setTimeout(loadAgain, seconds * 1000);
  };
  setTimeout(loadAgain, seconds * 1000);
})();
