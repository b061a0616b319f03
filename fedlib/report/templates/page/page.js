// Two comforts: one button for all code, and the contents list shows where you are. The page reads well without either.
(() => {
  const toggle = document.getElementById("toggle-code");
  const folds = [...document.querySelectorAll("details.code")];
  toggle.hidden = folds.length === 0;
  toggle.addEventListener("click", () => {
    const open = toggle.getAttribute("aria-pressed") !== "true";
    folds.forEach(fold => { fold.open = open; });
    toggle.setAttribute("aria-pressed", String(open));
    toggle.textContent = open ? "Hide all code" : "Show all code";
  });

  const contents = document.querySelector("nav.contents details");
  const wide = matchMedia("(min-width: 62rem)");
  const unfold = () => { if (contents) contents.open = wide.matches; };
  wide.addEventListener("change", unfold);
  unfold();

  const links = new Map([...document.querySelectorAll("nav.contents a")].map(a => [a.hash.slice(1), a]));
  const headings = [...links.keys()].map(id => document.getElementById(id));
  const follow = () => {
    const passed = headings.filter(heading => heading.getBoundingClientRect().top < 120);
    const current = (passed.at(-1) || headings[0])?.id;
    links.forEach((link, id) => id === current ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current"));
  };
  addEventListener("scroll", follow, { passive: true });
  follow();
})();
