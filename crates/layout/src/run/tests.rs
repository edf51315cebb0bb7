//! Tests of runs: what was written is read back, and damage is noticed.

use super::batch::tests::batch;
use super::*;
use crate::geometry::BLOCK;
use ottla_types::record::RunPart;
use ottla_types::{Millis, Offset, TopicId, TopicPartition};
use proptest::prelude::*;

const ID: RunId = RunId { log_id: 0xfeed, shard: 1, run: 9 };

/// The directory over batches of such sizes from place 4096 on, and their bytes. Two offsets each, timestamps by
/// `time`.
fn directory(sizes: &[usize], time: impl Fn(usize) -> i64, small: bool) -> (Vec<u8>, Vec<u8>, u32) {
    let mut writer = DirectoryWriter::default();
    let mut data = Vec::new();
    for (number, size) in sizes.iter().enumerate() {
        let bytes = batch(100 + 2 * number as i64, 1, time(number), *size);
        writer.push(BLOCK + data.len() as u64, &BatchHead::read(&bytes).unwrap(), &bytes);
        data.extend(bytes);
    }
    let (pages, count) = writer.finish(&ID, 1 << 30, small);
    (data, pages, count)
}

fn open(pages: &[u8]) -> Vec<DirectoryPage> {
    let check = |(index, page): (usize, &[u8])| {
        DirectoryPage::check(&ID, (1 << 30) + (index * PAGE) as u64, index as u32, page).unwrap()
    };
    pages.chunks(PAGE).enumerate().map(check).collect()
}

proptest! {
    #[test]
    fn every_batch_lies_in_the_stretch_that_is_found_for_it(sizes in proptest::collection::vec(61usize..9000, 1..400)) {
        let (data, bytes, count) = directory(&sizes, |number| (number as i64 * 7919) % 1000, false);
        let pages = open(&bytes);
        prop_assert_eq!(pages.len(), count as usize);
        let mut next = BLOCK;
        let mut seen = 0;
        let mut largest = Millis::NONE;
        for stretch in pages.iter().flat_map(DirectoryPage::stretches) {
            prop_assert_eq!(stretch.place, next);
            next = stretch.end;
            let range = (stretch.place - BLOCK) as usize..(stretch.end - BLOCK) as usize;
            walk_stretch(&stretch, &data[range], |_, head| {
                let page = pages.iter().find(|page| page.next_offset() > head.base_offset).unwrap();
                let index = page.first(|stretch| stretch.next_offset > head.base_offset).unwrap();
                assert_eq!(page.stretch(index), Some(stretch));
                largest = largest.max(head.max_timestamp);
                seen += 1;
            }).unwrap();
            prop_assert_eq!(stretch.max_timestamp, largest);
        }
        prop_assert_eq!(next, BLOCK + data.len() as u64);
        prop_assert_eq!(seen, sizes.len());
        prop_assert_eq!(pages.last().unwrap().max_timestamp(), largest);
    }

    #[test]
    fn garbage_is_no_page(bytes in proptest::collection::vec(any::<u8>(), 0..5000)) {
        prop_assert!(DirectoryPage::check(&ID, 0, 0, &bytes).is_err());
    }
}

#[test]
fn a_stretch_ends_with_the_first_batch_that_reaches_its_size() {
    let (_, bytes, _) = directory(&[4095, 100, 4096, 61, 5000, 70], |_| 5, false);
    let places: Vec<u64> = open(&bytes)[0].stretches().map(|stretch| stretch.place - BLOCK).collect();
    assert_eq!(places, [0, 4195, 8291, 13352]);
}

#[test]
fn a_small_part_has_one_short_page() {
    let (_, bytes, pages) = directory(&[61; 1000], |_| 5, true);
    assert_eq!(pages, 0);
    assert!(bytes.len() <= SMALL_DIRECTORY, "{}", bytes.len());
    assert_eq!(open(&bytes)[0].next_offset(), Offset(2100));
}

#[test]
fn any_flipped_bit_of_a_page_is_noticed_and_so_is_another_place() {
    let (_, bytes, _) = directory(&[3000; 40], |_| 5, true);
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(DirectoryPage::check(&ID, 1 << 30, 0, &damaged).is_err(), "bit {bit}");
    }
    let other = RunId { run: 8, ..ID };
    assert_eq!(DirectoryPage::check(&other, 1 << 30, 0, &bytes), Err(PageFault::Checksum));
    assert_eq!(DirectoryPage::check(&ID, 1 << 29, 0, &bytes), Err(PageFault::Checksum));
    assert_eq!(DirectoryPage::check(&ID, 1 << 30, 1, &bytes), Err(PageFault::Checksum));
}

#[test]
fn any_flipped_bit_of_a_head_is_noticed() {
    let (data, bytes, _) = directory(&[61, 300, 99], |_| 5, true);
    let stretch = open(&bytes)[0].stretch(0).unwrap();
    walk_stretch(&stretch, &data, |_, _| {}).unwrap();
    for batch in [0, 61, 361] {
        for bit in batch * 8..(batch + BATCH_HEAD) * 8 {
            let mut damaged = data.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(walk_stretch(&stretch, &damaged, |_, _| {}).is_err(), "bit {bit}");
        }
    }
    assert!(walk_stretch(&stretch, &data[..361], |_, _| {}).is_err());
}

fn row() -> RunRow {
    RunRow {
        partition: TopicPartition { topic: TopicId([3; 16]), partition: 5 },
        part: RunPart {
            run: ID.run,
            base_offset: Offset(10),
            last_offset: Offset(20),
            bytes: 300,
            max_timestamp: Millis(77),
            appended: Millis(78),
            data: BLOCK,
            directory: BLOCK + 300,
            pages: 2,
            clean: true,
            horizon: Millis(-1),
        },
    }
}

#[test]
fn the_ends_of_a_run_come_back_and_any_flipped_bit_is_noticed() {
    let mut table = Vec::new();
    row().encode(&mut table);
    let footer = RunFooter::of(50_000, &table);
    assert_eq!(footer.length, 53_248 + BLOCK);
    let (head, foot) = (ID.header(), ID.footer(&footer));
    assert_eq!(ID.check_header(&head), Ok(()));
    assert_eq!(ID.check_footer(&foot, footer.length), Ok(footer));
    assert_eq!(ID.check_table(&footer, &table), Ok(vec![row()]));
    for bit in 0..64 * 8 {
        let flip = |block: &[u8]| {
            let mut damaged = block.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            damaged
        };
        assert!(ID.check_header(&flip(&head)).is_err(), "header bit {bit}");
        assert!(ID.check_footer(&flip(&foot), footer.length).is_err(), "footer bit {bit}");
        assert!(ID.check_table(&footer, &flip(&table)).is_err(), "table bit {bit}");
    }
    let other = RunId { run: 3, ..ID };
    assert_eq!(other.check_header(&head), Err(RunFault::Foreign { run: 9, log_id: 0xfeed }));
    assert_eq!(ID.check_footer(&foot, footer.length + 1), Err(RunFault::Nonsense("footer")));
    assert_eq!(ID.check_footer(&head, footer.length), Err(RunFault::Missing("footer")));
}
