//! Matches responses with requests: the direction of requests sends each header to the direction of responses.

use bytes::Bytes;
use ottla_microscope::conversation::Head;
use ottla_wire::frame::read_request_header;
use ottla_wire::{ApiKey, At};
use std::collections::VecDeque;
use std::time::Instant;
use tokio::sync::mpsc;

/// Unanswered requests that a connection may have; the next request waits.
const MAX_PENDING: usize = 1024;
/// Bytes of the size in front of a frame.
const SIZE: usize = 4;

/// False for a request that the broker does not answer: Produce with acks 0.
pub(crate) fn is_answered(head: &Head, whole: &Bytes) -> bool {
    const AT: At = At("ProduceRequest", "Acks");
    if head.key != ApiKey::PRODUCE {
        return true;
    }
    let Some(info) = head.key.info() else { return true };
    let Ok((_, mut body)) = read_request_header(&whole.slice(whole.len().min(SIZE)..)) else { return true };
    let flexible = info.request_flexible.contains(head.version);
    let transactional_id = body.text_or_null(flexible, &AT);
    !matches!((transactional_id, body.i16(&AT)), (Ok(_), Ok(0)))
}

/// A request that has no response yet.
#[derive(Debug)]
pub(crate) struct PendingRequest {
    /// Its header; none for a SASL token without a header.
    pub(crate) head: Option<Head>,
    /// When its last byte arrived.
    pub(crate) at: Instant,
}

/// A channel from the direction of requests to the direction of responses.
pub(crate) fn channel() -> (mpsc::Sender<PendingRequest>, PendingRequests) {
    let (sender, from) = mpsc::channel(MAX_PENDING);
    (sender, PendingRequests { from, queue: VecDeque::new() })
}

/// The requests without a response, oldest first.
#[derive(Debug)]
pub(crate) struct PendingRequests {
    from: mpsc::Receiver<PendingRequest>,
    queue: VecDeque<PendingRequest>,
}

impl PendingRequests {
    /// Removes and returns the request that this response answers. A SASL token is answered by the next response.
    pub(crate) fn take(&mut self, whole: &Bytes) -> Option<PendingRequest> {
        let correlation_id =
            whole.get(SIZE..).and_then(<[u8]>::first_chunk).map(|id| i32::from_be_bytes(*id));
        let mut at = 0;
        loop {
            while at >= self.queue.len() {
                let request = self.from.try_recv().ok()?;
                if self.queue.len() >= MAX_PENDING {
                    self.queue.pop_front();
                    at = at.saturating_sub(1);
                }
                self.queue.push_back(request);
            }
            match &self.queue.get(at)?.head {
                None if at == 0 => return self.queue.pop_front(),
                Some(head) if Some(head.correlation_id) == correlation_id => return self.queue.remove(at),
                _ => at += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottla_wire::messages::{ApiVersionsRequest, ProduceRequest};
    use ottla_wire::{Message, Request, Text, frame};

    fn of<M: Request>(message: &M, version: i16, correlation_id: i32) -> Bytes {
        frame::request(correlation_id, Some(&Text::from_static("me")), message, version).unwrap().to_bytes()
    }

    fn answer(correlation_id: i32) -> Bytes {
        [4_i32.to_be_bytes(), correlation_id.to_be_bytes()].concat().into()
    }

    fn ask(sender: &mpsc::Sender<PendingRequest>, correlation_id: i32) {
        let head = Head::of_request(&of(&ApiVersionsRequest::default(), 3, correlation_id));
        sender.try_send(PendingRequest { head, at: Instant::now() }).unwrap();
    }

    fn taken(waiting: &mut PendingRequests, correlation_id: i32) -> Option<i32> {
        waiting.take(&answer(correlation_id))?.head.map(|head| head.correlation_id)
    }

    #[test]
    fn answers_find_their_requests_in_any_order() {
        let (sender, mut waiting) = channel();
        (1..=3).for_each(|id| ask(&sender, id));
        assert_eq!(taken(&mut waiting, 2), Some(2));
        assert_eq!(taken(&mut waiting, 1), Some(1));
        assert_eq!(taken(&mut waiting, 9), None);
        assert_eq!(taken(&mut waiting, 3), Some(3));
        assert_eq!(taken(&mut waiting, 3), None);
    }

    #[test]
    fn a_token_is_answered_by_what_comes_next() {
        let (sender, mut waiting) = channel();
        sender.try_send(PendingRequest { head: None, at: Instant::now() }).unwrap();
        ask(&sender, 7);
        assert!(waiting.take(&answer(1234)).unwrap().head.is_none());
        assert_eq!(taken(&mut waiting, 7), Some(7));
    }

    #[test]
    fn what_never_is_answered_does_not_pile_up() {
        let (sender, mut waiting) = channel();
        for id in 0..3 * MAX_PENDING as i32 {
            ask(&sender, id);
            assert_eq!(taken(&mut waiting, -1), None);
        }
        assert_eq!(waiting.queue.len(), MAX_PENDING);
        assert_eq!(taken(&mut waiting, 3 * MAX_PENDING as i32 - 1), Some(3 * MAX_PENDING as i32 - 1));
    }

    #[test]
    fn produce_without_acks_has_no_answer() {
        for version in ProduceRequest::VERSIONS.iter() {
            for (acks, answered) in [(0, false), (1, true), (-1, true)] {
                let frame = of(&ProduceRequest { acks, ..ProduceRequest::default() }, version, 1);
                assert_eq!(is_answered(&Head::of_request(&frame).unwrap(), &frame), answered, "{version}");
            }
        }
    }
}
