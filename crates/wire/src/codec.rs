//! The four codecs of record batches. Decompression returns at most as many bytes as the caller allows, whatever size
//! the input states.

mod large_snappy;

use flate2::write::GzEncoder;
use large_snappy::LargeSnappy;
use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};
use std::io::{self, Read, Write};

/// How the records of a batch are compressed: bits 0 to 2 of its attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// Gzip.
    Gzip,
    /// Snappy, written in the framing of Java clients, read with and without it.
    Snappy,
    /// The lz4 frame format, independent blocks of 64 KiB.
    Lz4,
    /// Zstandard; needs Produce version 7 and Fetch version 10.
    Zstd,
}

impl Compression {
    /// Every codec in the order of its number.
    pub const ALL: [Compression; 5] =
        [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

    /// The codec with that number; 5 and above are not defined.
    pub fn from_number(number: u8) -> Option<Compression> {
        Compression::ALL.get(usize::from(number)).copied()
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Its name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Gzip => "gzip",
            Compression::Snappy => "snappy",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }

    /// The codec of that name.
    pub fn from_name(name: &str) -> Option<Compression> {
        Compression::ALL.into_iter().find(|codec| codec.name() == name)
    }
}

/// Why compression or decompression failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The decompressed data is larger than the limit.
    #[error("{codec} data of more than {cap} bytes when decompressed", codec = .codec.name())]
    TooLarge {
        /// The codec.
        codec: Compression,
        /// The limit in bytes.
        cap: usize,
    },
    /// The input is not data of the codec.
    #[error("not valid {codec} data: {problem}", codec = .codec.name())]
    Malformed {
        /// The codec.
        codec: Compression,
        /// The error of the codec.
        problem: String,
    },
}

fn malformed(codec: Compression, problem: impl ToString) -> CodecError {
    CodecError::Malformed { codec, problem: problem.to_string() }
}

/// Compresses `plain`.
///
/// # Errors
/// The codec fails, which does not happen for input that fits in a batch.
pub fn compress(codec: Compression, plain: &[u8]) -> Result<Vec<u8>, CodecError> {
    match codec {
        Compression::None => Ok(plain.to_vec()),
        Compression::Gzip => compress_gzip(plain).map_err(|why| malformed(codec, why)),
        Compression::Snappy => compress_snappy(plain),
        Compression::Lz4 => compress_lz4(plain).map_err(|why| malformed(codec, why)),
        Compression::Zstd => zstd::bulk::compress(plain, 0).map_err(|why| malformed(codec, why)),
    }
}

/// Decompresses `packed` to at most `cap` bytes.
///
/// # Errors
/// The input is not data of the codec, or decompresses to more than `cap` bytes.
pub fn decompress(codec: Compression, packed: &[u8], cap: usize) -> Result<Vec<u8>, CodecError> {
    match codec {
        Compression::None if packed.len() > cap => Err(CodecError::TooLarge { codec, cap }),
        Compression::None => Ok(packed.to_vec()),
        Compression::Gzip => read_limited(codec, flate2::read::MultiGzDecoder::new(packed), cap),
        Compression::Snappy => decompress_snappy(packed, cap),
        Compression::Lz4 => decompress_lz4(packed, cap),
        Compression::Zstd => decompress_zstd(packed, cap),
    }
}

/// Base-2 logarithm of the zstd window that every decoder must support: 8 MiB.
const ZSTD_WINDOW_LOG: u32 = 23;
/// Base-2 logarithm of the largest window that zstd allows: 128 MiB.
const ZSTD_MAX_WINDOW_LOG: u32 = 27;
/// The largest raw snappy block that a stream decompresses as a whole, in bytes. A larger block is decompressed in
/// steps.
const MAX_WHOLE_SNAPPY_BLOCK: usize = 8 << 20;

/// Decompresses `packed` as a stream that holds one window or block in memory. With `large`, a zstd window may have the
/// largest size that zstd allows, else 8 MiB.
///
/// # Errors
/// The start of the input is not data of the codec. Later errors are returned by the stream.
pub(crate) fn decoder(
    codec: Compression,
    packed: &[u8],
    large: bool,
) -> Result<Box<dyn Read + '_>, CodecError> {
    let fail = |why| malformed(codec, why);
    Ok(match codec {
        Compression::None => Box::new(packed),
        Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(packed)),
        Compression::Snappy => {
            Box::new(SnappyDecoder { rest: packed, block: Vec::new(), at: 0, large: None, started: false })
        }
        Compression::Lz4 => {
            check_blocks(packed)?;
            Box::new(FrameDecoder::new(packed))
        }
        Compression::Zstd => {
            let mut from = zstd::stream::read::Decoder::new(packed).map_err(fail)?;
            from.window_log_max(if large { ZSTD_MAX_WINDOW_LOG } else { ZSTD_WINDOW_LOG }).map_err(fail)?;
            Box::new(from)
        }
    })
}

/// The compression level, on the codec's own scale; none for the codec's default. Gzip and zstd have levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level(pub Option<i32>);

/// Compresses a stream. Returns the number of bytes read.
///
/// # Errors
/// Reading or writing fails.
pub(crate) fn encode_stream(
    codec: Compression,
    level: Level,
    from: &mut impl Read,
    into: &mut impl Write,
) -> io::Result<u64> {
    match codec {
        Compression::None => io::copy(from, into),
        Compression::Gzip => {
            let level = level.0.and_then(|level| u32::try_from(level).ok());
            let level = level.map_or_else(flate2::Compression::default, flate2::Compression::new);
            let mut out = GzEncoder::new(into, level);
            let copied = io::copy(from, &mut out)?;
            out.finish()?;
            Ok(copied)
        }
        Compression::Snappy => compress_snappy_stream(from, into),
        Compression::Lz4 => {
            let mut out = FrameEncoder::with_frame_info(lz4_format(), into);
            let copied = io::copy(from, &mut out)?;
            out.finish()?;
            Ok(copied)
        }
        Compression::Zstd => {
            let mut out = zstd::stream::write::Encoder::new(into, level.0.unwrap_or(0))?;
            let copied = io::copy(from, &mut out)?;
            out.finish()?;
            Ok(copied)
        }
    }
}

/// Decompresses a snappy stream block by block.
struct SnappyDecoder<'a> {
    rest: &'a [u8],
    block: Vec<u8>,
    at: usize,
    /// A block above [`MAX_WHOLE_SNAPPY_BLOCK`], which is decompressed in steps.
    large: Option<LargeSnappy<'a>>,
    started: bool,
}

impl<'a> SnappyDecoder<'a> {
    fn next_block(&mut self) -> Result<(), CodecError> {
        let first = !std::mem::replace(&mut self.started, true);
        self.block.clear();
        self.at = 0;
        if first && !self.rest.starts_with(&XERIAL) {
            let block = std::mem::take(&mut self.rest);
            return self.open_block(block);
        }
        match next_xerial(&mut self.rest)? {
            Some(block) => self.open_block(block),
            None => Ok(()),
        }
    }

    fn open_block(&mut self, block: &'a [u8]) -> Result<(), CodecError> {
        let fail = |why: &dyn std::fmt::Display| malformed(Compression::Snappy, why);
        let length = snap::raw::decompress_len(block).map_err(|why| fail(&why))?;
        if length <= MAX_WHOLE_SNAPPY_BLOCK {
            return decompress_snappy_block(block, MAX_WHOLE_SNAPPY_BLOCK, &mut self.block);
        }
        self.large = Some(LargeSnappy::open(block, length).map_err(|why| fail(&why))?);
        Ok(())
    }
}

impl Read for SnappyDecoder<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(large) = &mut self.large {
                match large.read(into)? {
                    0 if !into.is_empty() => self.large = None,
                    count => return Ok(count),
                }
            }
            if self.at < self.block.len() || self.started && self.rest.is_empty() {
                break;
            }
            self.next_block().map_err(io::Error::other)?;
        }
        let left = self.block.get(self.at..).unwrap_or_default();
        let count = left.len().min(into.len());
        into[..count].copy_from_slice(&left[..count]);
        self.at += count;
        Ok(count)
    }
}

/// Reads to the end, at most one byte beyond the limit.
fn read_limited(codec: Compression, from: impl Read, cap: usize) -> Result<Vec<u8>, CodecError> {
    let mut plain = Vec::new();
    from.take(cap as u64 + 1).read_to_end(&mut plain).map_err(|why| malformed(codec, why))?;
    if plain.len() > cap {
        return Err(CodecError::TooLarge { codec, cap });
    }
    Ok(plain)
}

fn compress_gzip(plain: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = GzEncoder::new(Vec::new(), flate2::Compression::default());
    out.write_all(plain)?;
    out.finish()
}

fn lz4_format() -> FrameInfo {
    FrameInfo::new().block_size(BlockSize::Max64KB).block_mode(BlockMode::Independent)
}

fn compress_lz4(plain: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = FrameEncoder::with_frame_info(lz4_format(), Vec::new());
    out.write_all(plain)?;
    out.finish().map_err(io::Error::from)
}

/// Java clients cannot read linked blocks, so such a batch is refused.
fn check_blocks(packed: &[u8]) -> Result<(), CodecError> {
    const INDEPENDENT: u8 = 0x20;
    match packed.get(4) {
        Some(flags) if flags & INDEPENDENT == 0 => Err(malformed(Compression::Lz4, "linked blocks")),
        _ => Ok(()),
    }
}

fn decompress_lz4(packed: &[u8], cap: usize) -> Result<Vec<u8>, CodecError> {
    check_blocks(packed)?;
    read_limited(Compression::Lz4, FrameDecoder::new(packed), cap)
}

fn decompress_zstd(packed: &[u8], cap: usize) -> Result<Vec<u8>, CodecError> {
    let fail = |why| malformed(Compression::Zstd, why);
    let mut from = zstd::stream::read::Decoder::new(packed).map_err(fail)?;
    // zstd allocates the window before it reads data. The window may be as large as the permitted output, but at least
    // 8 MiB, which every decoder must support, and at most 128 MiB, which is zstd's limit.
    let window = cap.checked_ilog2().unwrap_or(0) + 1;
    from.window_log_max(window.clamp(ZSTD_WINDOW_LOG, ZSTD_MAX_WINDOW_LOG)).map_err(fail)?;
    read_limited(Compression::Zstd, from, cap)
}

/// The first bytes of a snappy stream as Java clients write it; two version numbers follow, then blocks with their
/// sizes.
const XERIAL: [u8; 8] = *b"\x82SNAPPY\0";
const XERIAL_HEADER: usize = 16;
const XERIAL_BLOCK: usize = 32 * 1024;

fn compress_snappy(plain: &[u8]) -> Result<Vec<u8>, CodecError> {
    let mut out = Vec::with_capacity(plain.len() / 2 + XERIAL_HEADER);
    compress_snappy_stream(&mut &plain[..], &mut out).map_err(|why| malformed(Compression::Snappy, why))?;
    Ok(out)
}

/// Compresses a stream to snappy in the framing of Java clients. Returns the number of bytes read.
fn compress_snappy_stream(from: &mut impl Read, into: &mut impl Write) -> io::Result<u64> {
    into.write_all(&XERIAL)?;
    into.write_all(&1_u32.to_be_bytes())?;
    into.write_all(&1_u32.to_be_bytes())?;
    let mut encoder = snap::raw::Encoder::new();
    let (mut block, mut copied) = (Vec::with_capacity(XERIAL_BLOCK), 0);
    loop {
        block.clear();
        from.by_ref().take(XERIAL_BLOCK as u64).read_to_end(&mut block)?;
        if block.is_empty() {
            return Ok(copied);
        }
        copied += block.len() as u64;
        let packed = encoder.compress_vec(&block).map_err(io::Error::other)?;
        into.write_all(&(packed.len() as u32).to_be_bytes())?;
        into.write_all(&packed)?;
    }
}

fn decompress_snappy(packed: &[u8], cap: usize) -> Result<Vec<u8>, CodecError> {
    let mut plain = Vec::new();
    // The version numbers are ignored, because some writers use the wrong byte order.
    if !packed.starts_with(&XERIAL) {
        decompress_snappy_block(packed, cap, &mut plain)?;
        return Ok(plain);
    }
    let mut rest = packed;
    while let Some(block) = next_xerial(&mut rest)? {
        decompress_snappy_block(block, cap, &mut plain)?;
    }
    Ok(plain)
}

/// The next block of a stream as Java clients write it.
fn next_xerial<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a [u8]>, CodecError> {
    let cut = || malformed(Compression::Snappy, "the stream is cut");
    while rest.starts_with(&XERIAL) {
        *rest = rest.get(XERIAL_HEADER..).ok_or_else(cut)?;
    }
    if rest.is_empty() {
        return Ok(None);
    }
    let (size, after) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
    let size = u32::from_be_bytes(*size) as usize;
    let (block, after) = after.split_at_checked(size).ok_or_else(cut)?;
    *rest = after;
    Ok(Some(block))
}

/// Decompresses one raw block and appends it. The stated size is checked before memory is allocated.
fn decompress_snappy_block(block: &[u8], cap: usize, plain: &mut Vec<u8>) -> Result<(), CodecError> {
    let codec = Compression::Snappy;
    let fail = |why| malformed(codec, why);
    let size = snap::raw::decompress_len(block).map_err(fail)?;
    let from = plain.len();
    if size > cap - from {
        return Err(CodecError::TooLarge { codec, cap });
    }
    plain.resize(from + size, 0);
    let room = plain.get_mut(from..).unwrap_or_default();
    let written = snap::raw::Decoder::new().decompress(block, room).map_err(fail)?;
    plain.truncate(from + written);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{CodecError, Compression, compress, decompress};

    fn sample() -> Vec<u8> {
        (0..200_000_u32).flat_map(|n| (n / 7 % 251).to_le_bytes()).collect()
    }

    #[test]
    fn every_codec_gives_back_what_it_took() {
        for plain in [Vec::new(), b"a".to_vec(), sample()] {
            for codec in Compression::ALL {
                let packed = compress(codec, &plain).unwrap();
                assert_eq!(decompress(codec, &packed, plain.len()).unwrap(), plain, "{codec:?}");
            }
        }
    }

    #[test]
    fn a_bomb_stops_at_the_cap() {
        let plain = vec![0; 1 << 20];
        for codec in Compression::ALL {
            let packed = compress(codec, &plain).unwrap();
            let refused = decompress(codec, &packed, 1000);
            assert_eq!(refused, Err(CodecError::TooLarge { codec, cap: 1000 }), "{codec:?}");
        }
    }

    #[test]
    fn cut_data_is_an_error() {
        let plain = sample();
        for codec in Compression::ALL.into_iter().skip(1) {
            let packed = compress(codec, &plain).unwrap();
            for length in [1, 5, 17, packed.len() / 2, packed.len() - 5] {
                assert!(decompress(codec, &packed[..length], plain.len()).is_err(), "{codec:?} {length}");
            }
        }
    }

    #[test]
    fn snappy_is_read_raw_and_framed_and_repeated() {
        let raw = snap::raw::Encoder::new().compress_vec(b"kafka").unwrap();
        assert_eq!(decompress(Compression::Snappy, &raw, 5).unwrap(), b"kafka");
        let framed = compress(Compression::Snappy, b"kafka").unwrap();
        assert_eq!(&framed[..16], b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01");
        let twice = [framed.clone(), framed].concat();
        assert_eq!(decompress(Compression::Snappy, &twice, 10).unwrap(), b"kafkakafka");
        let claim = [0xff, 0xff, 0xff, 0xff, 0x0f, 0];
        assert!(matches!(decompress(Compression::Snappy, &claim, 1 << 20), Err(CodecError::TooLarge { .. })));
    }

    #[test]
    fn lz4_is_what_java_reads() {
        let packed = compress(Compression::Lz4, &sample()).unwrap();
        // Magic, independent blocks without checksums or content size, blocks of 64 KiB, and an end mark.
        assert_eq!(&packed[..6], [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40]);
        assert_eq!(packed[packed.len() - 4..], [0; 4]);
        let mut linked = packed;
        linked[4] = 0x40;
        assert!(decompress(Compression::Lz4, &linked, 1 << 20).is_err());
    }
}
