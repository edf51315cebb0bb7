// While the box is checked, loads the page every two seconds and replaces its content. The pages work without this script.
(() => {
  const place = document.getElementById("refresh");
  if (!place) return;
  const key = "ottla.refresh";
  const box = document.createElement("input");
  box.type = "checkbox";
  box.checked = sessionStorage.getItem(key) === "on";
  const label = document.createElement("label");
  label.append(box, "refresh every 2 s");
  place.append(" · ", label);
  box.addEventListener("change", () => sessionStorage.setItem(key, box.checked ? "on" : "off"));
  setInterval(async () => {
    const old = document.querySelector("main");
    const busy = old.contains(document.activeElement) && document.activeElement !== old;
    if (!box.checked || document.hidden || busy || !getSelection().isCollapsed) return;
    try {
      const answer = await fetch(location.href);
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
      if (fresh) old.replaceChildren(...fresh.childNodes);
    } catch {
      // The broker may be restarting: the next interval tries again.
    }
  }, 2000);
})();
