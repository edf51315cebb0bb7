// Transactions.
import { count, ends, numbered } from './plain.js'
import { check, note, same } from './world.js'

// Sends the messages in one transaction and ends it.
async function transact(producer, topic, messages, commit = true) {
  const txn = await producer.transaction()
  await txn.send({ topic, acks: -1, messages })
  await (commit ? txn.commit() : txn.abort())
}

export async function txnCommitAbort(world) {
  const topic = await world.topic('', 2)
  const producer = await world.transactional()
  const [committed, all] = [[[], []], [[], []]]
  for (let t = 0; t < 6; t++) {
    const messages = Array.from({ length: 20 }, (_, i) => ({ partition: i % 2, value: `${t}-${i}` }))
    for (const { partition, value } of messages) {
      all[partition].push(value)
      if (t % 2 === 0) committed[partition].push(value)
    }
    await transact(producer, topic, messages, t % 2 === 0)
  }
  await transact(producer, topic, ends(2))
  same(committed, await world.readToEnd(topic, 2, false), 'read_committed')
  same(all, await world.readToEnd(topic, 2, true), 'read_uncommitted')
}

export async function zombieFenced(world) {
  const topic = await world.topic('', 1)
  const zombie = await world.transactional()
  const last = await zombie.transaction()
  await last.send({ topic, acks: -1, messages: [{ partition: 0, value: 'zombie-1' }] })
  const winner = await world.transactional()
  await transact(winner, topic, [{ partition: 0, value: 'winner' }])
  const [call, error] = await fence(last, topic)
  note(`zombie's ${call}: ${error?.type} ${error?.message}`)
  check(['PRODUCER_FENCED', 'INVALID_PRODUCER_EPOCH'].includes(error?.type), `the zombie's ${call} should be fenced, says: ${error}`)
  await transact(winner, topic, ends(1))
  same([['winner']], await world.readToEnd(topic, 1, false), 'read_committed')
  return `${call}: ${error.type}`
}

// Which error the zombie receives, and on which call.
async function fence(txn, topic) {
  try {
    await txn.send({ topic, acks: -1, messages: [{ partition: 0, value: 'zombie-2' }] })
  } catch (error) {
    return ['send', error.cause?.type ? error.cause : error]
  }
  return ['commit', await txn.commit().then(() => undefined, error => error)]
}

export async function readCommittedOpen(world) {
  const topic = await world.topic('', 1)
  const plain = await world.producer()
  const producer = await world.transactional()
  const say = value => ({ topic, acks: -1, messages: [{ partition: 0, value }] })
  await plain.send(say('before'))
  const open = await producer.transaction()
  await open.send(say('open'))
  await plain.send(say('after'))
  const dirty = []
  await world.read(topic, true, (_, message) => dirty.push(message.value.toString()) >= 3)
  same(['before', 'open', 'after'], dirty, 'read_uncommitted')
  const admin = await world.admin()
  const [offsets] = await admin.fetchTopicOffsets(topic)
  same('1', offsets.high, 'latest of read_committed')
  await waitsForCommit(world, topic, open)
  return 'without: latest of read_uncommitted'
}

// One read_committed reader sees `before`, then nothing until the commit, then the rest.
async function waitsForCommit(world, topic, open) {
  const seen = []
  let fetches = 0
  const reader = await world.consumer(`${world.run}-waiting`)
  reader.on(reader.events.FETCH, () => fetches++)
  await reader.subscribe({ topic, fromBeginning: true })
  await reader.run({ autoCommit: false, eachMessage: async ({ message }) => void seen.push(message.value.toString()) })
  await world.until('the record before', () => seen.length >= 1)
  const mark = fetches
  await world.until('some more fetches', () => fetches >= mark + 5)
  same(['before'], seen, 'read_committed while the transaction is open')
  await open.commit()
  await world.until('the records after the commit', () => seen.length >= 3)
  same(['before', 'open', 'after'], seen, 'read_committed after the commit')
}

export async function consumeTransformProduce(world) {
  const [input, output] = [await world.topic('-in', 2), await world.topic('-out', 2)]
  const feed = await world.producer()
  const total = 200
  for (let i = 0; i < total; i += 20) await feed.send({ topic: input, acks: -1, messages: numbered(i, i + 20) })
  const producer = await world.transactional()
  await pipeline(world, producer, input, output, total)
  await transact(producer, output, ends(2))
  same(count('out-', 0, total), await world.readToEnd(output, 2, false), 'read_committed')
  const dirty = await world.readToEnd(output, 2, true)
  check(dirty.flat().length > total, 'read_uncommitted saw no aborted record')
  same([total / 2, total / 2], await world.committed(input, 2), 'committed offsets')
  return 'without: group metadata in the transaction (kafkajs sends none)'
}

// Moves all records in transactions, one per batch of one partition; the second is aborted and its batch read again.
async function pipeline(world, producer, input, output, total) {
  const consumer = await world.consumer(world.group, { readUncommitted: false })
  await consumer.subscribe({ topic: input, fromBeginning: true })
  let [round, done, wrong] = [0, 0, undefined]
  await consumer.run({
    autoCommit: false,
    eachBatchAutoResolve: false,
    eachBatch: async context => {
      try {
        done += await transform(world, producer, consumer, output, context, round++ !== 1)
      } catch (error) {
        wrong = error
      }
    },
  })
  await world.until('all records to be moved', () => wrong || done >= total)
  await consumer.disconnect()
  if (wrong) throw wrong
}

async function transform(world, producer, consumer, output, context, commit) {
  const { topic, partition, messages } = context.batch
  const taken = messages.slice(0, 50)
  const txn = await producer.transaction()
  await txn.send({ topic: output, acks: -1, messages: taken.map(m => ({ partition, value: `out-${m.value}` })) })
  const next = Number(taken.at(-1).offset) + 1
  await txn.sendOffsets({ consumerGroupId: world.group, topics: [{ topic, partitions: [{ partition, offset: String(next) }] }] })
  note(`partition ${partition}: ${taken.length} records, commit ${commit}`)
  if (commit) {
    await txn.commit()
    context.resolveOffset(taken.at(-1).offset)
    return taken.length
  }
  await txn.abort()
  const at = await world.committed(topic, 2)
  consumer.seek({ topic, partition, offset: String(Math.max(at[partition], 0)) })
  return 0
}
