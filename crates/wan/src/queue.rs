//! Queue of the bytes in transit in one direction.

use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// Limit of the bytes in transit in one direction of a connection. Above it, the sender waits. This
/// happens if the receiver does not read, or if the sender sends more than the limit within the
/// delay (1.5 GB/s at 40 ms).
pub(crate) const WINDOW: usize = 64 << 20;

/// An event in transit.
#[derive(Debug)]
pub(crate) enum Load {
    /// Bytes that the sender sent.
    Bytes(Box<[u8]>),
    /// The sender has shut its side down.
    End,
    /// The sender's connection broke.
    Reset,
}

struct Envelope {
    due: Instant,
    load: Load,
    /// Its part of the window.
    _permit: Option<OwnedSemaphorePermit>,
}

/// The sending end of a queue.
pub(crate) struct Sender {
    envelopes: UnboundedSender<Envelope>,
    window: Arc<Semaphore>,
}

/// The receiving end of a queue.
pub(crate) struct Receiver(UnboundedReceiver<Envelope>);

/// Creates an empty queue.
pub(crate) fn queue() -> (Sender, Receiver) {
    let (envelopes, receiver) = unbounded_channel();
    let window = Arc::new(Semaphore::new(WINDOW));
    (Sender { envelopes, window }, Receiver(receiver))
}

impl Sender {
    /// Queues an event, to be delivered at `due` or after all earlier ones. Waits while the window
    /// is full. Returns `false` if the receiver is gone.
    pub(crate) async fn send(&self, due: Instant, load: Load) -> bool {
        let permit = match &load {
            Load::Bytes(bytes) => {
                let many = u32::try_from(bytes.len()).expect("bytes are read in small pieces");
                let permit = Arc::clone(&self.window).acquire_many_owned(many).await;
                Some(permit.expect("nobody closes the window"))
            }
            Load::End | Load::Reset => None,
        };
        self.envelopes.send(Envelope { due, load, _permit: permit }).is_ok()
    }
}

impl Receiver {
    /// Waits for the next event, and returns it when it is due; `None` if the sender is gone.
    pub(crate) async fn next(&mut self) -> Option<Load> {
        let envelope = self.0.recv().await?;
        tokio::time::sleep_until(envelope.due).await;
        Some(envelope.load)
    }
}
