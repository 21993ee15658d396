// A client of the guide's kind in JavaScript: `node client.mjs TASK.json`.
//
// Flows in: a task's calls, and the variables OPENAI_EXAMPLE_CODE_EXECUTION_URL and _TOKEN. Flows out: a line of JSON for each
// answer; any answer that a strict client would not take ends it with status 1 and the reason.

import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'

const GIVES_UP_MS = 30_000
const PNG = /^data:image\/png;base64,(iVBORw0KGgo[A-Za-z0-9+/]+={0,2})$/

const url = new URL('/execute', process.env.OPENAI_EXAMPLE_CODE_EXECUTION_URL)
const token = process.env.OPENAI_EXAMPLE_CODE_EXECUTION_TOKEN
const sessionId = randomUUID()

for (const call of JSON.parse(await readFile(process.argv[2], 'utf8'))) {
  const items = await execute(call.language, call.code.join('\n'))
  console.log(JSON.stringify(items.map(told)))
}

async function execute(language, code) {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${token}` },
    body: JSON.stringify({ session_id: sessionId, language, code }),
    signal: AbortSignal.timeout(GIVES_UP_MS),
  })
  if (response.status !== 200) fail(`status ${response.status}: ${await response.text()}`)
  const answer = await response.json()
  if (Object.keys(answer).join() !== 'output' || !Array.isArray(answer.output) || answer.output.length === 0) {
    fail(`no list of outputs: ${JSON.stringify(answer).slice(0, 200)}`)
  }
  return answer.output
}

function told(item) {
  const fields = Object.keys(item).sort().join()
  if (item.type === 'input_text' && fields === 'text,type' && typeof item.text === 'string') return item.text
  if (item.type === 'input_image' && fields === 'detail,image_url,type' && item.detail === 'original') {
    const [, data] = PNG.exec(item.image_url) ?? fail('an image that is no PNG data URL')
    const png = Buffer.from(data, 'base64')
    return { image: [png.readUInt32BE(16), png.readUInt32BE(20)] }
  }
  return fail(`an item of an unknown kind: ${JSON.stringify(item).slice(0, 200)}`)
}

function fail(reason) {
  console.error(reason)
  process.exit(1)
}
