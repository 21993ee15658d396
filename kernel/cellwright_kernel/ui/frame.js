(frame) => {
  // Where the document of an <iframe> begins within the one around it, how large it is, and by how much it is scaled.
  const box = frame.getBoundingClientRect();
  const style = getComputedStyle(frame);
  const across = frame.offsetWidth ? box.width / frame.offsetWidth : 1;
  const down = frame.offsetHeight ? box.height / frame.offsetHeight : 1;
  const [left, top] = [parseFloat(style.paddingLeft) || 0, parseFloat(style.paddingTop) || 0];
  const width = frame.clientWidth - left - (parseFloat(style.paddingRight) || 0);
  const height = frame.clientHeight - top - (parseFloat(style.paddingBottom) || 0);
  return [box.x + (frame.clientLeft + left) * across, box.y + (frame.clientTop + top) * down, width, height, across, down];
}
