//! The header block, table of parts and footer block of a run.

use crate::geometry::{BLOCK, align_up};
use crate::identity::Identity;
use crate::read::{array, i64_at, put, u16_at, u32_at, u64_at};
use ottla_types::record::RunPart;
use ottla_types::{Millis, Offset, TopicId, TopicPartition};

const MAGIC: &[u8; 8] = b"OTTLARUN";
const END_MAGIC: &[u8; 8] = b"OTTLAEND";
const CHECKSUM: usize = 60;
const LEN: usize = 64;
const ROW: usize = 92;

/// Version of the format of runs.
pub const RUN_FORMAT: u16 = 0;

/// The identity of a run: the log, the shard and the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunId {
    /// The folder's random number.
    pub log_id: u64,
    /// The shard.
    pub shard: u16,
    /// The run's number.
    pub run: u64,
}

/// Where the table of parts lies and how long the file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunFooter {
    /// Bytes of the file, this block included.
    pub length: u64,
    /// Place of the table.
    pub table: u64,
    /// Rows of the table.
    pub parts: u32,
    /// Checksum of the table.
    pub checksum: u32,
}

/// A row of the table: a part and its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunRow {
    /// The partition.
    pub partition: TopicPartition,
    /// The part, as the log knows it.
    pub part: RunPart,
}

/// Bytes of a run that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunFault {
    /// Not a header or footer block.
    #[error("no {0} of a run is here")]
    Missing(&'static str),
    /// Damaged.
    #[error("the checksum of the {0} does not match")]
    Checksum(&'static str),
    /// Written by a newer version.
    #[error("run format {0} is newer than this program knows: use the version that wrote it")]
    NewerFormat(u16),
    /// Another run, or one of another folder.
    #[error("it is run {run} of log {log_id:016x}")]
    Foreign {
        /// The number it carries.
        run: u64,
        /// The log it carries.
        log_id: u64,
    },
    /// The checksum matches, but the content is invalid.
    #[error("the {0} makes no sense")]
    Nonsense(&'static str),
}

impl RunId {
    /// Run number `run` of a folder.
    pub fn of(identity: &Identity, run: u64) -> RunId {
        RunId { log_id: identity.log_id, shard: identity.shard, run }
    }

    /// The header block.
    pub fn header(&self) -> Vec<u8> {
        self.block(MAGIC, None)
    }

    /// The footer block.
    pub fn footer(&self, footer: &RunFooter) -> Vec<u8> {
        self.block(END_MAGIC, Some(footer))
    }

    fn block(&self, magic: &[u8; 8], footer: Option<&RunFooter>) -> Vec<u8> {
        let mut block = vec![0; BLOCK as usize];
        put(&mut block, 0, magic);
        put(&mut block, 8, &RUN_FORMAT.to_le_bytes());
        put(&mut block, 10, &self.shard.to_le_bytes());
        put(&mut block, 16, &self.log_id.to_le_bytes());
        put(&mut block, 24, &self.run.to_le_bytes());
        if let Some(footer) = footer {
            put(&mut block, 32, &footer.length.to_le_bytes());
            put(&mut block, 40, &footer.table.to_le_bytes());
            put(&mut block, 48, &footer.parts.to_le_bytes());
            put(&mut block, 52, &footer.checksum.to_le_bytes());
        }
        let checksum = crc32c::crc32c(block.get(..CHECKSUM).unwrap_or_default());
        put(&mut block, CHECKSUM, &checksum.to_le_bytes());
        block
    }

    /// Checks that `block` is the header of this run.
    pub fn check_header(&self, block: &[u8]) -> Result<(), RunFault> {
        self.check(block, MAGIC, "header")
    }

    /// Checks that `block`, the last one of a file of `size` bytes, is the footer of this run.
    pub fn check_footer(&self, block: &[u8], size: u64) -> Result<RunFooter, RunFault> {
        self.check(block, END_MAGIC, "footer")?;
        let read = || {
            Some(RunFooter {
                length: u64_at(block, 32)?,
                table: u64_at(block, 40)?,
                parts: u32_at(block, 48)?,
                checksum: u32_at(block, 52)?,
            })
        };
        let footer = read().ok_or(RunFault::Missing("footer"))?;
        let end = footer.table.checked_add(footer.table_len() as u64);
        let fits = end.is_some_and(|end| footer.table >= BLOCK && align_up(end) + BLOCK == size);
        if fits && footer.length == size { Ok(footer) } else { Err(RunFault::Nonsense("footer")) }
    }

    fn check(&self, block: &[u8], magic: &[u8; 8], what: &'static str) -> Result<(), RunFault> {
        let bytes = block.get(..LEN).filter(|bytes| bytes.starts_with(magic));
        let bytes = bytes.ok_or(RunFault::Missing(what))?;
        if u32_at(bytes, CHECKSUM) != Some(crc32c::crc32c(&bytes[..CHECKSUM])) {
            return Err(RunFault::Checksum(what));
        }
        let format = u16_at(bytes, 8).ok_or(RunFault::Missing(what))?;
        if format != RUN_FORMAT {
            return Err(RunFault::NewerFormat(format));
        }
        let read =
            || Some(RunId { shard: u16_at(bytes, 10)?, log_id: u64_at(bytes, 16)?, run: u64_at(bytes, 24)? });
        let found = read().ok_or(RunFault::Missing(what))?;
        if found == *self { Ok(()) } else { Err(RunFault::Foreign { run: found.run, log_id: found.log_id }) }
    }

    /// Reads the table of parts that `footer` describes.
    pub fn check_table(&self, footer: &RunFooter, bytes: &[u8]) -> Result<Vec<RunRow>, RunFault> {
        let what = "table of parts";
        let table = bytes.get(..footer.table_len()).ok_or(RunFault::Missing(what))?;
        if crc32c::crc32c(table) != footer.checksum {
            return Err(RunFault::Checksum(what));
        }
        let rows = table.chunks_exact(ROW).map(|row| RunRow::decode(self.run, row));
        rows.collect::<Option<Vec<RunRow>>>().ok_or(RunFault::Nonsense(what))
    }
}

impl RunFooter {
    /// The footer of a run whose parts end at `table`, where the table comes next.
    pub fn of(table: u64, rows: &[u8]) -> RunFooter {
        RunFooter {
            length: align_up(table + rows.len() as u64) + BLOCK,
            table,
            parts: (rows.len() / ROW) as u32,
            checksum: crc32c::crc32c(rows),
        }
    }

    /// Bytes of the table.
    pub fn table_len(&self) -> usize {
        self.parts as usize * ROW
    }
}

impl RunRow {
    /// Appends the row to a table.
    pub fn encode(&self, table: &mut Vec<u8>) {
        let part = &self.part;
        table.extend(self.partition.topic.0);
        table.extend(self.partition.partition.to_le_bytes());
        table.extend(part.pages.to_le_bytes());
        table.extend(part.base_offset.0.to_le_bytes());
        table.extend(part.last_offset.0.to_le_bytes());
        table.extend(part.bytes.to_le_bytes());
        table.extend(part.max_timestamp.0.to_le_bytes());
        table.extend(part.appended.0.to_le_bytes());
        table.extend(part.data.to_le_bytes());
        table.extend(part.directory.to_le_bytes());
        table.extend(part.horizon.0.to_le_bytes());
        table.extend(u32::from(part.clean).to_le_bytes());
    }

    fn decode(run: u64, row: &[u8]) -> Option<RunRow> {
        let number = |at| i64_at(row, at);
        let partition = i32::from_le_bytes(array(row, 16)?);
        Some(RunRow {
            partition: TopicPartition { topic: TopicId(array(row, 0)?), partition },
            part: RunPart {
                run,
                base_offset: Offset(number(24)?),
                last_offset: Offset(number(32)?),
                bytes: u64_at(row, 40)?,
                max_timestamp: Millis(number(48)?),
                appended: Millis(number(56)?),
                data: u64_at(row, 64)?,
                directory: u64_at(row, 72)?,
                pages: u32_at(row, 20)?,
                clean: u32_at(row, 88)? == 1,
                horizon: Millis(number(80)?),
            },
        })
    }
}
