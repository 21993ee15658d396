"""What stands for a secret in a header is no text to type: every way of both languages says so, in the same sentence."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from cellwright.sandbox.base import SecretSpec, Spec
from cellwright.session import Session
from cellwright_kernel.secrets.placeholder import TYPED
from cellwright_kernel.wire import Language

pytestmark = [
    pytest.mark.slow,
    pytest.mark.sandbox,
    pytest.mark.asyncio(loop_scope="module"),
]

FORM = "await page.goto('data:text/html,<input id=text>'); await page.click('#text')"
WAYS: tuple[tuple[Language, str], ...] = (
    ("python", "pyautogui.write({})"),
    ("python", "await page.fill('#text', {})"),
    ("python", "await page.type('#text', {})"),
    ("python", "await page.locator('#text').fill({})"),
    ("python", "await page.locator('#text').press_sequentially({})"),
    ("python", "await page.get_by_role('textbox').type({})"),
    ("python", "await page.main_frame.fill('#text', {})"),
    ("python", "await (await page.query_selector('#text')).fill({})"),
    ("python", "await page.keyboard.type({})"),
    ("python", "await page.keyboard.insert_text({})"),
    ("javascript", "await page.fill('#text', {})"),
    ("javascript", "await page.type('#text', {})"),
    ("javascript", "await page.locator('#text').fill('key: ' + {})"),
    ("javascript", "await page.locator('#text').pressSequentially({})"),
    ("javascript", "await page.getByRole('textbox').type({})"),
    ("javascript", "await page.mainFrame().fill('#text', {})"),
    ("javascript", "await (await page.$('#text')).fill({})"),
    ("javascript", "await page.keyboard.type({})"),
    ("javascript", "await page.keyboard.insertText({})"),
)
OWN_CONNECTIONS = (
    "const { chromium: mine } = require('playwright')",
    "const { chromium: mine } = await import('playwright')",
    "import { chromium as mine } from 'playwright'",
)
"""How a cell can have Playwright before it has named `page`."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session() -> AsyncIterator[Session]:
    spec = Spec(secrets=(SecretSpec(name="ONE", hosts=("shop.example.com",)),), allow=("shop.example.com",))
    async with Session.open(spec, secrets={"ONE": "Zebra-7!x+Y/z"}) as opened:
        yield opened


@pytest.mark.parametrize(("language", "way"), WAYS)
async def test_a_placeholder_is_not_typed(session: Session, language: Language, way: str) -> None:
    header = "secrets.header('ONE')" if language == "python" else "(await secrets.header('ONE'))"
    cell = await session.execute(f"{FORM}\n{way.format(header)}", language=language)
    assert cell.status == "error"
    assert TYPED in cell.text
    assert "CellwrightSecret_" not in cell.text
    left = await session.execute("log(await page.input_value('#text') == '')")
    assert left.text == "True"


@pytest.mark.parametrize("language", ["python", "javascript"])
async def test_other_text_is_typed_as_ever(session: Session, language: Language) -> None:
    cell = await session.execute(f"{FORM}\nawait page.fill('#text', 'CellwrightSecret')", language=language)
    assert cell.status == "ok"
    assert (await session.execute("log(await page.input_value('#text'))")).text == "CellwrightSecret"


@pytest.mark.parametrize("loaded", OWN_CONNECTIONS)
async def test_nor_by_a_connection_that_a_cell_of_javascript_made_itself(session: Session, loaded: str) -> None:
    await session.restart("javascript")
    code = f"""{loaded}
const link = await mine.connectOverCDP(process.env.CELLWRIGHT_CDP)
const [tab] = link.contexts()[0].pages()
await tab.goto('data:text/html,<input id=text>')
await tab.fill('#text', await secrets.header('ONE'))"""
    cell = await session.execute(code, language="javascript")
    assert cell.status == "error"
    assert TYPED in cell.text


async def test_pages_of_a_session_without_secrets_are_typed_into_unseen() -> None:
    async with Session.open() as session:
        for language in ("python", "javascript"):
            cell = await session.execute(f"{FORM}\nawait page.fill('#text', 'CellwrightSecret_')", language=language)
            assert cell.status == "ok", cell.text
