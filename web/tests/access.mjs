// What everybody needs of a page: names, a keyboard's way through it, and room on small screens.

import assert from 'node:assert/strict';

import { picture } from './browser.mjs';

const CONTROLS = 'button, input, select, textarea, a[href], [tabindex="0"]';
const ROLES = new Set(['button', 'textbox', 'combobox', 'spinbutton', 'link', 'checkbox', 'slider', 'searchbox', 'progressbar', 'dialog']);

/** Every control has a name, is reached with the Tab key, and shows when it has the focus. */
export async function assertReachable(page) {
  await assertNamed(page);
  const wanted = await page.evaluate((selector) => {
    const shown = [...document.querySelectorAll(selector)].filter((control) => control.checkVisibility({ visibilityProperty: true }) && !control.disabled && control.tabIndex >= 0);
    shown.forEach((control, i) => (control.dataset.tabStop = String(i)));
    document.activeElement?.blur();
    return shown.map((control) => control.id || control.outerHTML.slice(0, 80));
  }, CONTROLS);
  assert.ok(wanted.length > 3, wanted.join());
  const reached = new Set();
  for (let presses = 0; presses < 2 * wanted.length + 4 && reached.size < wanted.length; presses += 1) {
    await page.keyboard.press('Tab');
    const focus = await page.evaluate(() => {
      const { activeElement: control } = document;
      const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(control);
      const ringed = (outlineStyle !== 'none' && parseFloat(outlineWidth) > 0) || boxShadow !== 'none';
      // A field inside a frame of its own may show the focus there.
      const frame = getComputedStyle(control.parentElement ?? control);
      const framed = (frame.outlineStyle !== 'none' && parseFloat(frame.outlineWidth) > 0) || frame.boxShadow !== 'none';
      return { stop: control.dataset?.tabStop, seen: ringed || framed, html: control.outerHTML.slice(0, 80) };
    });
    if (focus.stop === undefined) continue;
    reached.add(Number(focus.stop));
    assert.ok(focus.seen, `one does not see that ${focus.html} has the focus`);
  }
  assert.deepEqual(wanted.filter((_, i) => !reached.has(i)), [], 'the Tab key does not reach them');
}

async function assertNamed(page) {
  const session = await page.context().newCDPSession(page);
  const { nodes } = await session.send('Accessibility.getFullAXTree');
  await session.detach();
  const controls = nodes.filter((node) => !node.ignored && ROLES.has(node.role?.value));
  assert.ok(controls.length > 3, `${controls.length} controls`);
  const nameless = controls.filter((node) => !node.name?.value?.trim());
  assert.deepEqual(nameless.map((node) => `${node.role.value} ${node.backendDOMNodeId}`), []);
}

/** Pictures for people: as it is, in the dark, and on a narrow screen, where nothing may stick out. */
export async function pictures(page, name) {
  await picture(page, name);
  await page.emulateMedia({ colorScheme: 'dark' });
  await picture(page, `${name}-dark`);
  await page.emulateMedia({ colorScheme: null });
  const before = page.viewportSize();
  await page.setViewportSize({ width: 360, height: 740 });
  try {
    await assertNoSideways(page);
    await picture(page, `${name}-narrow`);
  } finally {
    await page.setViewportSize(before);
  }
}

/** At 360 × 740 nothing scrolls sideways, on the page and in its dialogs, and what one needs is on the screen. */
export async function assertNarrow(page, needed, name) {
  const before = page.viewportSize();
  await page.setViewportSize({ width: 360, height: 740 });
  try {
    await assertFits(page, needed, name);
  } finally {
    await page.setViewportSize(before);
  }
}

async function assertFits(page, needed, name) {
  await assertNoSideways(page);
  for (const id of needed) {
    const box = await page.locator(`[data-testid="${id}"]`).boundingBox();
    const inside = box && box.x >= 0 && box.y >= 0 && box.x + box.width <= 360 && box.y + box.height <= 740;
    assert.ok(inside, `${id} is at ${JSON.stringify(box)}`);
  }
  await picture(page, name);
  for (const dialog of ['model', 'settings', 'details']) {
    await page.locator(`#${dialog}-button`).click();
    await page.locator(`#${dialog}-dialog`).waitFor();
    await page.evaluate(() => Promise.all(document.getAnimations().map((animation) => animation.finished)));
    await assertNoSideways(page);
    await assertNamed(page);
    await picture(page, `${name}-${dialog}`);
    await page.keyboard.press('Escape');
    await page.locator(`#${dialog}-dialog`).waitFor({ state: 'hidden' });
  }
}

/** Blocks that scroll by themselves, as code does, are allowed to be wide. */
async function assertNoSideways(page) {
  const wide = await page.evaluate(() => {
    const { scrollWidth, clientWidth } = document.documentElement;
    const scrolls = (element) => ['auto', 'scroll', 'hidden', 'clip'].includes(getComputedStyle(element).overflowX);
    const hasScroller = (element) => element !== null && (scrolls(element) || hasScroller(element.parentElement));
    const out = [...document.body.querySelectorAll('*')].filter((element) => (
      element.checkVisibility() && element.getBoundingClientRect().right > clientWidth + 1 && !hasScroller(element.parentElement)));
    return { scrollWidth, clientWidth, out: out.map((element) => element.outerHTML.slice(0, 80)) };
  });
  assert.ok(wide.scrollWidth <= wide.clientWidth && wide.out.length === 0, JSON.stringify(wide));
}
