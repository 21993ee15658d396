// The dialogs of pages that are open: while one is, its page answers nobody, and neither does a cell that waits for it.
//
// Flows in: Playwright's news of dialogs that open and close. Flows out: a sentence when a cell has failed beside an open one.
// Decided here, as in Python: a cell that was interrupted was waiting for nobody, so its dialogs are dismissed; after an error
// they are only named, since the code may hold one and answer it in the next cell.
'use strict';

const { inspect } = require('node:util');

const { Set, setTimeout, clearTimeout } = globalThis;

const DISMISS_MS = 400; // the next rung of the deadline's ladder follows the interrupt after a second; 5 ms are usual

class OpenDialogs {
  #open = new Set();

  /** Follow the dialogs of a context that is new; those of one before it are gone. */
  watch(context) {
    this.#open.clear();
    context.on('dialog', (dialog) => this.#open.add(dialog));
    context.on('dialogclosed', (dialog) => this.#open.delete(dialog));
  }

  name(say) {
    for (const dialog of this.#open) {
      say(`${named(dialog)}Until it is answered, the page answers nothing; a listener for it has to accept or dismiss it.`);
    }
  }

  /** Dismiss what is open, say so, and go on in any case. */
  dismiss(say, goOn) {
    const dialogs = [...this.#open];
    let left = dialogs.length;
    let timer = null;
    const end = () => {
      clearTimeout(timer);
      goOn?.();
      goOn = null;
    };
    if (!left) return end();
    timer = setTimeout(end, DISMISS_MS);
    for (const dialog of dialogs) {
      this.#open.delete(dialog);
      const over = (how) => {
        if (goOn) say(named(dialog) + how);
        left -= 1;
        if (!left) end();
      };
      dialog.dismiss().then(
        () => over('The cell could not go on; the dialog was dismissed, so that the page can be used.'),
        () => over('It could not be dismissed. Open another page: `page = await context.newPage()`.'),
      );
    }
  }
}

function named(dialog) {
  return `A dialog of the page is open: ${dialog.type()}(${inspect(dialog.message())}). `;
}

module.exports = { OpenDialogs };
