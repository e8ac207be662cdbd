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

  // The page of an error and a preview lead back to their form. Most browsers keep what was typed there. The link of a
  // preview leads to an empty form where this does not run.
  const back = document.getElementById("back");
  if (back && history.length > 1) {
    back.hidden = false;
    back.addEventListener("click", (event) => {
      // These open the link in another tab.
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      history.back();
    });
  }

  // An id that does not fit is cut in its middle, and a button beside the one in use copies all of it.
  const TAIL = 6;
  const cut = () => {
    for (const id of document.querySelectorAll("#content .id:not(.cut)")) {
      const text = id.textContent;
      if (id.childElementCount || text.length < 2 * TAIL || /\s/.test(text)) continue;
      const parts = [text.slice(0, -TAIL), text.slice(-TAIL)].map((part) => {
        const span = document.createElement("span");
        span.textContent = part;
        return span;
      });
      id.replaceChildren(...parts);
      id.classList.add("cut");
    }
  };
  const copy = document.createElement("button");
  Object.assign(copy, { type: "button", className: "copy" });
  const { copy: copyWord, copied } = document.body.dataset;
  let named;
  const offer = (event) => {
    const id = event.target.closest?.("#content .id.cut");
    if (!id || id === named) return;
    named = id;
    copy.textContent = copyWord;
    copy.setAttribute("aria-label", `${copyWord} ${id.title}`);
    id.after(copy);
  };
  const withdraw = (event) => {
    const to = event.relatedTarget;
    if (!named || to === copy || named.contains(to) || event.target === copy && copy.matches(":focus")) return;
    copy.remove();
    named = undefined;
  };
  copy.addEventListener("click", async () => {
    const text = named.title || named.textContent;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Browsers have that on https alone.
      getSelection().selectAllChildren(named);
      document.execCommand("copy");
      getSelection().removeAllRanges();
    }
    copy.textContent = copied;
  });
  if (copyWord) {
    cut();
    document.addEventListener("loaded-again", cut);
    for (const name of ["pointerover", "focusin"]) document.addEventListener(name, offer);
    for (const name of ["pointerout", "focusout"]) document.addEventListener(name, withdraw);
  }

  // A page that no longer changes does not load itself again.
  let seconds = Number(document.body.dataset.refresh);
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
        // The report for which a page waits may be refused. 503 passes, and a page that waits on is the same.
        const waits = main.querySelector(".awaited");
        const isNew = waits ? answer.status !== 503 && !content?.querySelector(".awaited") : answer.ok;
        if (isNew && content && !isBusy()) {
          main.replaceChildren(...content.childNodes);
          document.dispatchEvent(new Event("loaded-again"));
          seconds = Number(page.body.dataset.refresh);
          if (!(seconds > 0)) return;
        }
      }
    } catch {
      // The server may be away. The next time may find it.
    }
    setTimeout(loadAgain, seconds * 1000);
  };
  setTimeout(loadAgain, seconds * 1000);
})();
