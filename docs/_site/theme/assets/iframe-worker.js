// Browsers start no worker in a page that is opened from disk. There, the script of the search runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      frame.title = "Search"
      frame.addEventListener("answer", ({ detail }) => this.dispatchEvent(new MessageEvent("message", { data: detail })))
      frame.srcdoc =
        "<script>postMessage = (detail) => frameElement.dispatchEvent(new parent.CustomEvent('answer', { detail }))</script>" +
        `<script src="${encodeURI(decodeURI(url))}"></script>`
      this.ready = new Promise((resolve) => {
        frame.addEventListener("load", () => {
          const inside = frame.contentWindow
          if (inside.location.href === "about:srcdoc") resolve(inside) // else it is the empty page before
        })
      })
      document.body.append(frame)
    }

    postMessage(data) {
      this.ready.then((inside) => inside.dispatchEvent(new inside.MessageEvent("message", { data })))
    }
  }
}
