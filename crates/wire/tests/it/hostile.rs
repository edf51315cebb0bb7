//! Frames that are truncated, have flipped bits or wrong lengths: always an error or a value, never a panic, and never
//! more memory than a small multiple of the frame.

use crate::support::{Case, cases, decode_only, recode_frame};
use bytes::Bytes;
use ottla_wire::messages::MetadataRequest;
use ottla_wire::smallest_frame;
use ottla_wire::tables::{Direction, StructTable, Type};
use ottla_wire::{Message, Reader, Writer};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // The thread-local counters do not exist while a thread ends; nothing is measured then.
    let _ = LIVE.try_with(|live| {
        live.set(live.get().wrapping_add_signed(bytes));
        PEAK.with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: every call is passed unchanged to the system's allocator; counting does not access its memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes allocated at any moment of `work`, beyond those before it.
pub(crate) fn peak_of<T>(work: impl FnOnce() -> T) -> (usize, T) {
    let before = LIVE.get() as isize;
    PEAK.set(LIVE.get());
    let result = work();
    ((PEAK.get() as isize - before).max(0) as usize, result)
}

fn frame(case: &Case) -> Vec<u8> {
    smallest_frame(case.info.key, case.direction, case.version).unwrap_or_default().to_vec()
}

/// Reads the frame; a panic or a large allocation fails the test.
fn survive(case: &Case, bytes: Vec<u8>) {
    let bytes = Bytes::from(bytes);
    let (peak, _) = peak_of(|| recode_frame(case, &bytes));
    // What a typed value takes, how it prints, and an error message. The largest struct has 500 bytes or so.
    assert!(peak <= 8192 + 64 * bytes.len(), "{case:?}: {peak} bytes allocated for {} bytes", bytes.len());
}

#[test]
fn every_prefix_is_an_error() {
    for case in cases() {
        let whole = frame(&case);
        for length in 0..whole.len() {
            let cut = Bytes::copy_from_slice(&whole[..length]);
            assert!(recode_frame(&case, &cut).is_err(), "{case:?} cut to {length}");
        }
    }
}

#[test]
fn every_flipped_byte_is_survived() {
    for case in cases() {
        let whole = frame(&case);
        for at in 4..whole.len() {
            for flip in [0x01, 0x7f, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] ^= flip;
                survive(&case, bytes);
            }
        }
    }
}

#[test]
fn every_false_length_is_survived() {
    let lies: [&[u8]; 4] =
        [&[0x7f, 0xff, 0xff, 0xff], &[0xff, 0xff, 0xff, 0xff, 0x07], &[0x7f, 0xff], &[0xff, 0xff, 0x7f]];
    for case in cases() {
        let whole = frame(&case);
        for at in 4..whole.len() {
            for lie in lies {
                let mut bytes = whole.clone();
                bytes.splice(at..(at + lie.len()).min(whole.len()), lie.iter().copied());
                survive(&case, bytes);
            }
        }
    }
}

#[test]
fn a_count_of_billions_allocates_nothing() {
    for (bytes, version) in [(&[0xff, 0xff, 0xff, 0xff, 0x07][..], 12), (&[0x7f, 0xff, 0xff, 0xff][..], 8)] {
        let mut reader = Reader::new(Bytes::copy_from_slice(bytes));
        let (peak, outcome) = peak_of(|| MetadataRequest::decode(&mut reader, version));
        let why = outcome.unwrap_err();
        assert_eq!((why.message(), why.field(), why.offset()), ("MetadataRequest", "Topics", 0));
        assert!(peak < 200, "{peak}");
    }
}

/// Writes the fewest bytes the value can have: everything empty, null where that is legal.
fn put_least(w: &mut Writer, case: &Case, ty: &Type, nullable: bool) {
    let flexible = case.table.flexible.contains(case.version);
    match ty {
        Type::Struct(_) if nullable => w.marker(false),
        Type::Struct(inner) => put_least_struct(w, case, inner, ""),
        Type::String | Type::Bytes | Type::Records | Type::Array(_) if flexible => w.uvarint(1),
        Type::String => w.i16(0),
        Type::Bytes | Type::Records | Type::Array(_) => w.i32(0),
        Type::Bool | Type::Int8 => w.i8(0),
        Type::Int16 | Type::Uint16 => w.i16(0),
        Type::Int32 | Type::Uint32 => w.i32(0),
        Type::Int64 | Type::Float64 => w.i64(0),
        Type::Uuid => w.raw(&[0; 16]),
    }
}

/// The same for a struct; its array named `crowded` gets as many elements as fill a large frame.
fn put_least_struct(w: &mut Writer, case: &Case, table: &StructTable, crowded: &str) {
    let flexible = case.table.flexible.contains(case.version);
    for field in table.fields.iter().filter(|field| field.is_plain(case.version)) {
        match field.ty {
            Type::Array(element) if field.name == crowded => {
                if flexible {
                    w.uvarint(CROWD + 1);
                } else {
                    w.u32(CROWD);
                }
                (0..CROWD).for_each(|_| put_least(w, case, element, false));
            }
            ty => put_least(w, case, &ty, field.nullable.contains(case.version)),
        }
    }
    if flexible {
        w.uvarint(0);
    }
}

const CROWD: u32 = 20_000;

/// A request full of the smallest elements takes the memory of their structs: at most 45 times its bytes.
#[test]
fn a_crowd_of_small_elements_is_bounded() {
    let mut worst = (0, String::new());
    for case in cases().filter(|case| case.direction == Direction::Request) {
        for field in case.table.root.fields.iter().filter(|field| matches!(field.ty, Type::Array(_))) {
            if !field.is_plain(case.version) {
                continue;
            }
            let mut w = Writer::new();
            put_least_struct(&mut w, &case, case.table.root, field.name);
            let bytes = w.into_bytes();
            let mut reader = Reader::new(bytes.clone());
            let mut sink = Writer::with_capacity(2 * bytes.len());
            let (peak, outcome) =
                peak_of(|| decode_only(case.table.name, case.version, &mut reader, &mut sink));
            assert!(outcome.is_ok(), "{case:?} {}: {outcome:?}", field.name);
            worst = worst
                .max((peak / bytes.len(), format!("{} {} {}", case.table.name, case.version, field.name)));
        }
    }
    assert!(worst.0 <= 45, "{worst:?}");
}
