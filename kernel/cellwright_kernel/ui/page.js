() => {
  // What a page says of where it is. Numbers of its window are in pixels of the screen, those of the page in CSS pixels.
  const seen = window.visualViewport ?? { scale: 1, offsetLeft: 0, offsetTop: 0 };
  return {
    title: document.title.slice(0, 1000),
    inner: [innerWidth, innerHeight],
    window: [screenX, screenY, outerWidth, outerHeight],
    zoom: devicePixelRatio,
    pinch: [seen.scale, seen.offsetLeft, seen.offsetTop],
  };
}
