// Producing and consuming without transactions.
import kafkajs from 'kafkajs'
import { registerCodecs } from './codecs.js'
import { check, proxy, same } from './world.js'

const { CompressionTypes } = kafkajs

// Record i: everything about it is a function of i and the start time, so a reader can check it.
function record(i, start) {
  let value = Buffer.from(`value-${i}-${'x'.repeat(100)}`)
  if (i % 10 === 1) value = null
  if (i % 10 === 2) value = Buffer.alloc(0)
  return {
    partition: i % 3,
    key: i % 10 === 0 ? null : Buffer.from(`key-${i}`),
    value,
    headers: { n: Buffer.from(String(i)), bin: Buffer.from([0x00, 0xff, 0x80]) },
    timestamp: String(start + i),
  }
}

// A form in which two byte strings are equal only if both are null or hold the same bytes.
const hex = bytes => (bytes == null ? null : Buffer.from(bytes).toString('hex'))

function shape(message) {
  const { key, value, headers, timestamp } = message
  return { key: hex(key), value: hex(value), n: hex(headers.n), bin: hex(headers.bin), timestamp }
}

export const withCodec = codec => async world => {
  await registerCodecs()
  const topic = await world.topic('', 3)
  const producer = await world.producer()
  const start = Date.now()
  const total = 300
  const messages = Array.from({ length: total }, (_, i) => record(i, start))
  const acks = await producer.send({ topic, acks: -1, compression: CompressionTypes[codec], messages })
  const where = acks.map(a => [a.partition, a.baseOffset]).sort()
  same([[0, '0'], [1, '0'], [2, '0']], where, 'acknowledged partitions and base offsets')
  let read = 0
  await world.read(topic, false, (partition, message) => {
    const i = Number(message.offset) * 3 + partition
    check(i < total, `partition ${partition} has an offset ${message.offset}`)
    same(shape(messages[i]), shape(message), `record ${i}`)
    same(2, Object.keys(message.headers).length, `headers of record ${i}`)
    read++
    return read >= total
  })
  same(total, read, 'records read')
  return 'without: reading outside a group, the order of headers'
}

export async function idempotentReconnect(world) {
  const topic = await world.topic('', 2)
  const producer = await world.producer({ idempotent: true, maxInFlightRequests: 1 })
  const send = (from, to) => producer.send({ topic, acks: -1, messages: numbered(from, to) })
  await send(0, 100)
  const before = await proxy('hits')
  check((await proxy('lose')) >= 1, 'the proxy armed no connection')
  for (let i = 100; i < 200; i += 20) await send(i, i + 20)
  check((await proxy('hits')) > before, 'the proxy lost no answer')
  const late = send(200, 250) // one at a time: kafkajs numbers batches only after the one before is acknowledged
  await proxy('drop')
  await late
  await send(250, 300)
  await producer.send({ topic, acks: -1, messages: ends(2) })
  same(count('', 0, 300), await world.readToEnd(topic, 2, true), 'the log')
}

export function numbered(from, to) {
  return Array.from({ length: to - from }, (_, n) => ({ partition: (from + n) % 2, value: String(from + n) }))
}

export function ends(partitions) {
  return Array.from({ length: partitions }, (_, partition) => ({ partition, value: 'end' }))
}

// The values [from, to) with a prefix, as two partitions should hold them.
export function count(prefix, from, to) {
  const values = [[], []]
  for (let i = from; i < to; i++) values[i % 2].push(`${prefix}${i}`)
  return values
}
