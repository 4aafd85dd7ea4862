// The theme's search is a dialog without a name.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search")

// Tables and code that scroll sideways must be reachable with the keyboard.
document$.subscribe(() => {
  const update = () => {
    for (const box of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code")) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0
      else box.removeAttribute("tabindex")
    }
  }
  update()
  addEventListener("resize", update)
})
