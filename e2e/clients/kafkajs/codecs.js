// The codecs that kafkajs leaves to its users, on packages that need no compiler: snappy, lz4 and zstd.
import { createRequire } from 'node:module'
import kafkajs from 'kafkajs'
import lz4 from 'lz4js'
import snappy from 'snappyjs'

const { CompressionCodecs, CompressionTypes } = kafkajs
const zstd = createRequire(import.meta.url)('@bokuweb/zstd-wasm')

// Java's snappy stream: magic, two version numbers, then blocks with their length in front.
const XERIAL = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0x00])

function unsnappy(bytes) {
  if (!bytes.subarray(0, XERIAL.length).equals(XERIAL)) return Buffer.from(snappy.uncompress(bytes))
  const blocks = []
  for (let at = 16; at < bytes.length; ) {
    const length = bytes.readUInt32BE(at)
    blocks.push(Buffer.from(snappy.uncompress(bytes.subarray(at + 4, at + 4 + length))))
    at += 4 + length
  }
  return Buffer.concat(blocks)
}

// lz4js marks its blocks as depending on each other, which Kafka does not read. A batch is one block of at most 4 MiB,
// so they do not: say so in the frame descriptor (flags, block size and the checksum of the two).
const INDEPENDENT = [0x60, 0x70, 0x73]

function lz4Compress(bytes) {
  const frame = Buffer.from(lz4.compress(bytes))
  frame.set(INDEPENDENT, 4)
  return frame
}

function register(type, compress, decompress) {
  CompressionCodecs[type] = () => ({
    compress: async encoder => Buffer.from(compress(encoder.buffer)),
    decompress: async bytes => Buffer.from(decompress(bytes)),
  })
}

export async function registerCodecs() {
  await zstd.init()
  register(CompressionTypes.Snappy, bytes => snappy.compress(bytes), unsnappy)
  register(CompressionTypes.LZ4, lz4Compress, bytes => lz4.decompress(bytes))
  register(CompressionTypes.ZSTD, bytes => zstd.compress(bytes, 3), bytes => zstd.decompress(bytes))
}
