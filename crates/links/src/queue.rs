//! The bounded queue of frames to send over one link.

use std::collections::VecDeque;

use solera_machine::{Lane, Share, Turns};

/// A queue of the bodies of frames. A frame gets its number when it is sent for the first time.
/// Until then, it waits for the turn of its protocol.
///
/// Within a site, a frame is kept until it is acknowledged, so that a broken connection loses
/// nothing. Between sites, a frame is removed when it is sent, because the protocols request lost
/// data again.
///
/// While the queue is full, the caller drops new messages. If it dropped the oldest ones instead, a
/// slow link could never catch up: a receiver can use the next frames, but none after a gap.
#[derive(Debug)]
pub(crate) struct Queue<B> {
    /// Bodies that were never sent, with their lengths.
    waiting: Turns<(B, usize)>,
    /// Frames that were sent and are kept.
    kept: VecDeque<Kept<B>>,
    /// Number of frames of `kept`, from the front, that were sent over the current connection.
    sent: usize,
    bytes: usize,
    limit: usize,
    last: u64,
    keeps: bool,
    dropped: u64,
}

/// A frame that is not acknowledged.
#[derive(Debug)]
struct Kept<B> {
    number: u64,
    body: B,
    bytes: usize,
}

impl<B: Clone> Queue<B> {
    /// Creates a queue of about `limit` bytes. If `keeps` is true, it keeps sent frames until they
    /// are acknowledged.
    pub(crate) fn new(limit: usize, keeps: bool) -> Queue<B> {
        let (waiting, kept) = (Turns::default(), VecDeque::new());
        Queue { waiting, kept, sent: 0, bytes: 0, limit, last: 0, keeps, dropped: 0 }
    }

    /// Adds a body of `bytes` bytes of a lane and protocol, even beyond the limit: a long body
    /// would otherwise never find enough space among short ones.
    pub(crate) fn push(&mut self, lane: Lane, protocol: u8, body: B, bytes: usize) {
        self.bytes += bytes;
        self.waiting.push(Share { lane, protocol, cost: bytes as u64 }, (body, bytes));
    }

    /// Returns the number and body of the next frame, and marks it as sent.
    pub(crate) fn next(&mut self) -> Option<(u64, B)> {
        if let Some(again) = self.kept.get(self.sent) {
            self.sent += 1;
            return Some((again.number, again.body.clone()));
        }
        let (_, (body, bytes)) = self.waiting.pop()?;
        self.last += 1;
        if self.keeps {
            self.kept.push_back(Kept { number: self.last, body: body.clone(), bytes });
            self.sent += 1;
        } else {
            self.bytes -= bytes;
        }
        Some((self.last, body))
    }

    /// Notes that all frames up to `number` have arrived.
    pub(crate) fn acknowledge(&mut self, number: u64) {
        while let Some(first) = self.kept.front()
            && first.number <= number
        {
            self.bytes -= first.bytes;
            self.kept.pop_front();
            self.sent = self.sent.saturating_sub(1);
        }
    }

    /// Notes that the connection broke. Unacknowledged frames will be sent again, or are lost.
    pub(crate) fn rewind(&mut self) {
        self.sent = 0;
        if !self.keeps {
            self.clear();
        }
    }

    /// Removes everything, because the receiver will never return.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
        self.kept.clear();
        self.sent = 0;
        self.bytes = 0;
    }

    /// Returns whether the limit is reached.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= self.limit
    }

    /// Counts a message that was dropped because the queue is full.
    pub(crate) fn count_dropped(&mut self) {
        self.dropped += 1;
    }

    /// Returns the bytes of all bodies that wait to be sent or acknowledged.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of dropped messages.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(queue: &mut Queue<()>) -> Vec<u64> {
        std::iter::from_fn(|| queue.next()).map(|(number, _)| number).collect()
    }

    fn filled(keeps: bool) -> Queue<()> {
        let mut queue = Queue::new(100, keeps);
        (0..3).for_each(|_| queue.push(Lane::USUAL, 1, (), 30));
        queue
    }

    #[test]
    fn within_a_site_what_was_not_acknowledged_is_sent_again() {
        let mut queue = filled(true);
        assert_eq!(numbers(&mut queue), [1, 2, 3]);
        queue.acknowledge(1);
        queue.push(Lane::USUAL, 1, (), 30);
        assert_eq!(numbers(&mut queue), [4]);
        queue.rewind();
        queue.acknowledge(2);
        assert_eq!(numbers(&mut queue), [3, 4]);
        queue.acknowledge(9);
        assert_eq!((queue.bytes(), numbers(&mut queue)), (0, vec![]));
        queue.push(Lane::USUAL, 1, (), 30);
        assert_eq!(numbers(&mut queue), [5]);
    }

    #[test]
    fn between_sites_what_was_sent_is_forgotten() {
        let mut queue = filled(false);
        assert_eq!(queue.next().unwrap().0, 1);
        assert_eq!(queue.bytes(), 60);
        queue.rewind();
        assert_eq!((queue.bytes(), numbers(&mut queue)), (0, vec![]));
    }

    #[test]
    fn the_last_frame_may_be_longer_than_the_room_that_is_left() {
        let mut queue = filled(true);
        assert!(!queue.is_full());
        queue.push(Lane::USUAL, 1, (), 1000);
        assert_eq!(
            (queue.is_full(), queue.bytes(), numbers(&mut queue)),
            (true, 1090, vec![1, 2, 3, 4])
        );
        queue.acknowledge(4);
        assert!(!queue.is_full());
    }
}
