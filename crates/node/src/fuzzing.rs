//! Entry points for fuzzing.

use solera_links::{Greeting, HEAD, decode_batch, read_frame};
use solera_machine::Topology;
use solera_site::Message;
use solera_time::SiteId;

use crate::questions::{Answer, Question};

/// Reads bytes as a peer's greeting, as its frames, and as a batch of its messages, for fuzzing. It
/// must return for any bytes.
pub fn read_as_peer(bytes: &[u8]) {
    if let Some((head, body)) = bytes.split_first_chunk::<HEAD>()
        && Greeting::body_length(head).is_ok()
    {
        let _ = Greeting::decode(head, body);
    }
    let mut rest = bytes;
    while let Ok(Some((frame, length))) = read_frame(rest) {
        let _ = postcard::from_bytes::<Question>(frame.body);
        let _ = postcard::from_bytes::<Answer>(frame.body);
        rest = &rest[length..];
    }
    let topology = Topology { partitions: 3, workers: vec![2, 1] };
    for there in SiteId::all(2) {
        let _ = decode_batch::<Message>(bytes, there, SiteId(0), &topology);
    }
}
