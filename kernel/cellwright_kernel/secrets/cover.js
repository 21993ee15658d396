(() => {
  // Has the field that keys go to show dots, and every field that a page puts in its place with the same text in it; true when it
  // does. This runs in a world of its own; of the page only its elements are touched.
  const text = (field) => field.value ?? field.textContent;
  const hide = (field) => {
    const { style } = field;
    if (style.getPropertyValue('-webkit-text-security') === 'disc' && style.getPropertyPriority('-webkit-text-security')) return;
    style.setProperty('-webkit-text-security', 'disc', 'important');
  };
  const fields = globalThis.covered ??= new Set();
  const texts = globalThis.texts ??= new Set();
  const note = (field) => {
    if (text(field).length < 4) return;
    texts.add(text(field));
    if (texts.size > 200) texts.delete(texts.values().next().value);
  };
  const see = () => {
    for (const field of fields) {
      note(field);
      if (field.isConnected) hide(field);
      else fields.delete(field);
    }
    for (const field of document.querySelectorAll('input, textarea')) {
      if (texts.has(field.value)) fields.add(field).forEach(hide);
    }
  };
  if (!globalThis.observer) {
    const attributeFilter = ['class', 'style', 'type', 'value'];
    globalThis.observer = new MutationObserver(see);
    globalThis.observer.observe(document, { subtree: true, childList: true, attributes: true, attributeFilter });
    addEventListener('input', (event) => {
      const field = event.composedPath()[0];
      if (fields.has(field)) note(field);
      see();
    }, { capture: true });
  }
  const field = globalThis.field;
  fields.add(field);
  hide(field);
  return field.isConnected && getComputedStyle(field).webkitTextSecurity === 'disc';
})()
