//! A snapshot on its way to the disk: the state machine takes pieces of the state, and another thread writes them.
//!
//! ```text
//!   machine   take a piece          take a piece                    done: free segments
//!                  │     ▲ next          │     ▲ next                    ▲
//!   writer         ▼ write               ▼ write … the last one: sync, read back, name
//! ```
//! One piece is in flight at a time: the state machine takes the next piece when the writer is ready for it, and
//! handles other messages in between.

use super::Message;
use super::mailbox::Mailbox;
use ottla_core::Shard;
use ottla_store::{SnapshotFailure, SnapshotWriter, Snapshotter};
use ottla_types::record::{LogRecord, SnapshotUnit};
use ottla_types::{LogPosition, Millis};
use std::sync::mpsc::{Receiver, Sender, channel};

/// When snapshots are written, and in what pieces.
#[derive(Clone, Copy, Debug)]
pub struct Snapshots {
    /// After so many bytes of log.
    pub every: u64,
    /// After so long, if the log has grown by as much as the last snapshot took.
    pub after: Millis,
    /// Rows, and elements in them, that one run of the state machine takes.
    pub piece: usize,
}

impl Snapshots {
    /// A snapshot after so many bytes of log, or a minute.
    pub fn every(bytes: u64) -> Snapshots {
        // A piece takes the state machine some hundred microseconds.
        Snapshots { every: bytes, after: Millis(60_000), piece: 1024 }
    }
}

/// Rows of the state as it was when the log ended at `position`.
struct Piece {
    position: LogPosition,
    rows: Vec<LogRecord>,
    /// The last piece: with it the snapshot is whole.
    last: bool,
}

/// Writes the pieces of one snapshot.
struct SnapshotJob {
    snapshotter: Snapshotter,
    writer: Option<SnapshotWriter>,
    /// All pieces are written; what remains is to end the snapshot when the log is durable.
    ending: bool,
    commands: Mailbox,
}

impl SnapshotJob {
    /// Writes a piece and reports to the state machine: ready for the next piece, or how the snapshot ended.
    fn write(&mut self, piece: Piece) {
        self.ending = piece.last;
        match self.try_write(piece) {
            Ok(()) if self.ending => self.end(),
            Ok(()) => self.commands.report(Message::SnapshotPiece),
            Err(failure) => self.commands.report(Message::SnapshotWritten(Err(failure.to_string()))),
        }
    }

    fn try_write(&mut self, piece: Piece) -> Result<(), SnapshotFailure> {
        let mut writer = match self.writer.take() {
            Some(writer) => writer,
            None => self.snapshotter.begin(piece.position)?,
        };
        writer.piece(piece.position, &mut piece.rows.into_iter())?;
        self.writer = Some(writer);
        Ok(())
    }

    /// Ends the snapshot; a log without threads may have to write first.
    fn end(&mut self) {
        let Some(writer) = &mut self.writer else { return };
        let ended = match writer.finish() {
            Err(SnapshotFailure::NotDurable { .. }) => return,
            ended => ended.map_err(|failure| failure.to_string()),
        };
        self.writer = None;
        self.commands.report(Message::SnapshotWritten(ended));
    }
}

/// Where pieces go.
enum Desk {
    /// To a thread of their own.
    Thread(Sender<Piece>),
    /// They wait for [`SnapshotInProgress::work`].
    Caller(Box<SnapshotJob>, Option<Piece>),
}

/// A snapshot that is being taken.
pub(super) struct SnapshotInProgress {
    desk: Desk,
    most: usize,
    reached: Option<SnapshotUnit>,
}

impl SnapshotInProgress {
    /// Begins a snapshot with its first piece.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn begin(
        snapshotter: Snapshotter,
        commands: Mailbox,
        threads: bool,
        most: usize,
    ) -> std::io::Result<SnapshotInProgress> {
        let job = SnapshotJob { snapshotter, writer: None, ending: false, commands };
        let desk = if threads { Desk::Thread(spawn(job)?) } else { Desk::Caller(Box::new(job), None) };
        Ok(SnapshotInProgress { desk, most, reached: None })
    }

    /// Takes the next piece of the state as it is now, when the log ends at `position`.
    pub(super) fn take(&mut self, shard: &Shard, position: LogPosition) {
        let (rows, reached) = shard.snapshot_piece(self.reached.as_ref(), self.most);
        let piece = Piece { position, rows, last: reached == SnapshotUnit::All };
        self.reached = Some(reached);
        match &mut self.desk {
            // A thread that is gone has reported how the snapshot ended.
            Desk::Thread(pieces) => pieces.send(piece).unwrap_or(()),
            Desk::Caller(_, waiting) => *waiting = Some(piece),
        }
    }

    /// Whether there is something for [`SnapshotInProgress::work`].
    pub(super) fn has_work(&self) -> bool {
        match &self.desk {
            Desk::Thread(_) => false,
            Desk::Caller(job, waiting) => waiting.is_some() || (job.ending && job.writer.is_some()),
        }
    }

    /// Writes the piece that waits, or ends the snapshot if the log is durable.
    pub(super) fn work(&mut self) {
        if let Desk::Caller(job, waiting) = &mut self.desk {
            match waiting.take() {
                Some(piece) => job.write(piece),
                None if job.ending => job.end(),
                None => {}
            }
        }
    }
}

fn spawn(mut job: SnapshotJob) -> std::io::Result<Sender<Piece>> {
    let (sender, pieces): (Sender<Piece>, Receiver<Piece>) = channel();
    let write = move || pieces.into_iter().for_each(|piece| job.write(piece));
    std::thread::Builder::new().name("ottla-snapshot".to_owned()).spawn(write)?;
    Ok(sender)
}
