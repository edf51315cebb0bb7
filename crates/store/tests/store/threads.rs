//! The writer, the fill thread, readers, snapshots and freeing at the same time.

use crate::common::{Chance, batch, free_before, open_on, stored};
use bytes::Bytes;
use ottla_store::{Callbacks, LogReader, Medium, MediumFile, MemoryMedium, Options};
use ottla_types::LogPosition;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

type Known = Mutex<Vec<(LogPosition, Bytes)>>;

/// Reads random batches, and compares those that still exist.
fn read_until_stopped(reader: &LogReader, known: &Known, stop: &AtomicBool, seed: u64) -> u64 {
    let mut chance = Chance(seed);
    let mut compared = 0;
    while !stop.load(Ordering::SeqCst) {
        let Some((at, bytes)) = known.lock().ok().and_then(|known| {
            let count = known.len() as u64;
            (count > 0).then(|| known[chance.below(count) as usize].clone())
        }) else {
            continue;
        };
        match reader.read(at, bytes.len()) {
            Ok(found) => {
                assert_eq!(found, bytes, "at {at:?}");
                compared += 1;
            }
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}"),
        }
    }
    compared
}

#[test]
fn readers_see_what_was_appended_or_that_it_is_gone() {
    let medium = MemoryMedium::new();
    let options = Options {
        segment_size: 1 << 20,
        recent: 1 << 20,
        zero_fill: true,
        threads: true,
        ..Options::memory()
    };
    let told = Arc::new(AtomicU64::new(0));
    let listener = Arc::clone(&told);
    let callbacks = Callbacks {
        on_durable: Box::new(move |position| listener.store(position.0, Ordering::SeqCst)),
        on_failure: Box::new(|failure| panic!("{failure}")),
    };
    let (mut opened, _) = open_on(Arc::new(medium.clone()), options, callbacks).unwrap();
    let known = Known::default();
    let stop = AtomicBool::new(false);
    let reader = opened.log.reader();
    let snapshotter = opened.log.snapshotter();
    let mut tail = Vec::new();
    std::thread::scope(|scope| {
        let readers = [1, 2].map(|seed| {
            let (reader, known, stop) = (reader.clone(), &known, &stop);
            scope.spawn(move || read_until_stopped(&reader, known, stop, seed))
        });
        let mut chance = Chance(7);
        let mut waiting = Vec::new();
        for number in 0..3000 {
            let record = batch(number, 100 + chance.below(20_000) as usize);
            let place = opened.log.append(&record).unwrap();
            opened.log.kick();
            waiting.push((place, stored(&record)));
            tail.push(place);
            let durable = LogPosition(told.load(Ordering::SeqCst));
            while waiting.first().is_some_and(|(place, _)| place.end <= durable) {
                let (place, bytes) = waiting.remove(0);
                known.lock().unwrap().push((place.payload.unwrap(), bytes));
            }
            if number % 500 == 499 {
                let end = opened.log.end();
                snapshotter.write(end, &mut std::iter::empty()).unwrap();
                snapshotter.write(end, &mut std::iter::empty()).unwrap();
                free_before(&opened.log, end);
                tail.clear();
            }
        }
        opened.log.flush().unwrap();
        stop.store(true, Ordering::SeqCst);
        let compared: u64 = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        assert!(compared > 100, "{compared} reads were compared");
    });
    let early = reader.read(opened.log.end(), 1).unwrap_err();
    assert_eq!(early.kind(), std::io::ErrorKind::WouldBlock);
    opened.log.close().unwrap();
    let (_, replay) = open_on(Arc::new(medium), options, Callbacks::none()).unwrap();
    let places: Vec<_> = replay.entries.iter().map(|(place, _)| *place).collect();
    assert_eq!(places, tail);
}

/// A medium that is slow to write zeros, so that the writer catches up with the fill thread.
struct SlowZeros(MemoryMedium);

struct SlowFile(Arc<dyn MediumFile>);

impl Medium for SlowZeros {
    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn MediumFile>> {
        Ok(Arc::new(SlowFile(self.0.open(name)?)))
    }
    fn create(&self, name: &str) -> io::Result<Arc<dyn MediumFile>> {
        Ok(Arc::new(SlowFile(self.0.create(name)?)))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }
    fn sync_names(&self) -> io::Result<()> {
        self.0.sync_names()
    }
    fn free_space(&self) -> io::Result<u64> {
        self.0.free_space()
    }
    fn describe(&self) -> String {
        self.0.describe()
    }
}

impl MediumFile for SlowFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        if buf.iter().all(|byte| *byte == 0) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        self.0.write_at(buf, offset)
    }
    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }
    fn allocate(&self, len: u64) -> io::Result<()> {
        self.0.allocate(len)
    }
}

#[test]
fn zeros_never_cover_what_was_appended() {
    let memory = MemoryMedium::new();
    let slow = || Arc::new(SlowZeros(memory.clone()));
    let options = Options { segment_size: 4 << 20, zero_fill: true, threads: true, ..Options::memory() };
    let (mut opened, _) = open_on(slow(), options, Callbacks::none()).unwrap();
    for number in 0..4000 {
        opened.log.append(&batch(number, 3000)).unwrap();
        opened.log.kick();
        if number % 64 == 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    opened.log.close().unwrap();
    assert_eq!(open_on(slow(), options, Callbacks::none()).unwrap().1.entries.len(), 4000);
}

#[test]
fn the_parts_may_move_between_threads() {
    fn sendable<T: Send>() {}
    fn shareable<T: Send + Sync + Clone>() {}
    sendable::<ottla_store::Log>();
    shareable::<LogReader>();
    shareable::<ottla_store::Snapshotter>();
}
