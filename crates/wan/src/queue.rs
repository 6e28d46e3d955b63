//! Bytes under way in one direction.

use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// How many bytes may be under way in one direction of a connection. A sender waits if there are
/// more: the receiver does not read, or sends faster than this in its delay (1.5 GB/s at 40 ms).
pub(crate) const WINDOW: usize = 64 << 20;

/// What is under way.
#[derive(Debug)]
pub(crate) enum Load {
    /// Some bytes.
    Bytes(Box<[u8]>),
    /// The sender sends no more.
    End,
    /// The sender is gone.
    Reset,
}

struct Parcel {
    due: Instant,
    load: Load,
    /// Its part of the window.
    _room: Option<OwnedSemaphorePermit>,
}

/// The end where bytes come in.
pub(crate) struct Sender {
    parcels: UnboundedSender<Parcel>,
    window: Arc<Semaphore>,
}

/// The end where they go out.
pub(crate) struct Receiver(UnboundedReceiver<Parcel>);

/// A queue that is empty.
pub(crate) fn queue() -> (Sender, Receiver) {
    let (parcels, receiver) = unbounded_channel();
    let window = Arc::new(Semaphore::new(WINDOW));
    (Sender { parcels, window }, Receiver(receiver))
}

impl Sender {
    /// Lets something go out at a time, or when what is before it has. Waits for room. False if the
    /// receiver is gone.
    pub(crate) async fn send(&self, due: Instant, load: Load) -> bool {
        let room = match &load {
            Load::Bytes(bytes) => {
                let many = u32::try_from(bytes.len()).expect("bytes are read in small pieces");
                let room = Arc::clone(&self.window).acquire_many_owned(many).await;
                Some(room.expect("nobody closes the window"))
            }
            Load::End | Load::Reset => None,
        };
        self.parcels.send(Parcel { due, load, _room: room }).is_ok()
    }
}

impl Receiver {
    /// What goes out next, when it is due. None if the sender is gone.
    pub(crate) async fn next(&mut self) -> Option<Load> {
        let parcel = self.0.recv().await?;
        tokio::time::sleep_until(parcel.due).await;
        Some(parcel.load)
    }
}
