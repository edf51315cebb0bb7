//! Whatever the bytes are, reading ends and says something.

use crate::support::{capture, ping, pong};
use ottla_microscope::capture::exercise;
use ottla_microscope::conversation::{Conversation, LARGEST_FRAME, Time};
use ottla_wire::tables::Direction;
use proptest::prelude::*;

proptest! {
    #[test]
    fn garbage_never_panics(data in prop::collection::vec(any::<u8>(), 0..2_000)) {
        exercise(&data);
        for magic in [&[0xd4, 0xc3, 0xb2, 0xa1][..], &[0xa1, 0xb2, 0x3c, 0x4d], &[0x0a, 0x0d, 0x0d, 0x0a]] {
            exercise(&[magic, &data].concat());
        }
    }

    #[test]
    fn a_damaged_capture_never_panics(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20), cut: prop::sample::Index,
    ) {
        let said = [(Direction::Request, ping(1)), (Direction::Response, pong(1)), (Direction::Request, ping(2))];
        let mut file = capture(&said);
        for (at, byte) in damage {
            let at = at.index(file.len());
            file[at] = byte;
        }
        file.truncate(cut.index(file.len()) + 1);
        exercise(&file);
    }

    #[test]
    fn a_garbage_conversation_never_panics(
        said in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..60), 0_u64..5), 0..40),
        from_the_start: bool,
    ) {
        let mut conversation = Conversation::new(crate::support::connection(1), from_the_start, LARGEST_FRAME);
        for (number, (asks, data, missing)) in said.iter().enumerate() {
            let direction = if *asks { Direction::Request } else { Direction::Response };
            let framed = [&(data.len() as u32).to_be_bytes()[..], data].concat();
            let data = if number % 2 == 0 { data } else { &framed };
            conversation.data(direction, Time(0), data, &mut |_, _, _| {});
            if *missing > 0 {
                conversation.gap(direction, Time(0), *missing, &mut |_, _, _| {});
            }
        }
        conversation.finish(Time(0), &mut |_, _, _| {});
    }
}
