// The kafkajs client of the end-to-end tests, run as `node main.js BOOTSTRAP SCENARIO RUN_ID`; ../../README.md has the contract.
// It must not know which broker it talks to.
import { admin } from './admin.js'
import { groupRebalance } from './groups.js'
import { idempotentReconnect, withCodec } from './plain.js'
import { consumeTransformProduce, readCommittedOpen, txnCommitAbort, zombieFenced } from './txn.js'
import { note, World } from './world.js'

// kafkajs warns once that its default partitioner changed; every record here names its partition.
process.env.KAFKAJS_NO_PARTITIONER_WARNING = '1'

const scenarios = {
  'produce-consume-none': withCodec('None'),
  'produce-consume-gzip': withCodec('GZIP'),
  'produce-consume-snappy': withCodec('Snappy'),
  'produce-consume-lz4': withCodec('LZ4'),
  'produce-consume-zstd': withCodec('ZSTD'),
  admin,
  'group-rebalance': groupRebalance,
  'txn-commit-abort': txnCommitAbort,
  ctp: consumeTransformProduce,
  'zombie-fenced': zombieFenced,
  'read-committed-open': readCommittedOpen,
}

if (process.env.E2E_PROXY_CONTROL) scenarios['idempotent-reconnect'] = idempotentReconnect

const cannot = {
  'static-member': 'kafkajs has no group instance id',
  'idempotent-reconnect': 'the broker is not behind the proxy',
}

const [bootstrap, name, run] = process.argv.slice(2)

function finish(result, detail = '') {
  process.stdout.write(`${JSON.stringify({ result, detail })}\n`, () => process.exit(result === 'fail' ? 1 : 0))
}

if (scenarios[name]) {
  const world = new World(bootstrap, run)
  try {
    const detail = await scenarios[name](world)
    await world.close()
    finish('pass', detail)
  } catch (error) {
    note(error.stack)
    finish('fail', String(error.message))
  }
} else {
  finish('cannot', cannot[name] ?? 'unknown scenario')
}
