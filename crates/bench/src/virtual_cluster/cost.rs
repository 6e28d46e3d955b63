//! What a host does beside its machine, measured when a program begins.

use std::io::{Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use cpu_time::ThreadTime;
use solera_data::Op;
use solera_levels::Level;
use solera_machine::{Machine, Now};
use solera_resp::{RequestParser, encode_command};
use solera_time::{Monotonic, Physical, SiteId, Vector};
use solera_unistore::{
    Address, Command, Config, Input, Message, Output, Replica, RequestId, Topology,
};

use super::cluster::EPOCH;

/// Nanoseconds of a core of this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    /// Encoding a message for another process, or decoding one.
    pub(crate) message: u64,
    /// Writing a batch to a connection, or reading one.
    pub(crate) system_call: u64,
    /// Parsing a client's command.
    pub(crate) command: u64,
}

/// So often is each done.
const TIMES: u32 = 2000;

impl Costs {
    /// Measures for a few tens of milliseconds.
    ///
    /// # Errors
    /// There is no connection on the loopback.
    pub(crate) fn measure() -> std::io::Result<Costs> {
        let message = message();
        let encode = || postcard::to_stdvec(&message).expect("messages have a serialised form");
        let bytes = encode();
        let encoding = each(|| drop(std::hint::black_box(encode())));
        let decoding = each(|| {
            let message: Message = postcard::from_bytes(&bytes).expect("it was just encoded");
            drop(std::hint::black_box(message));
        });

        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut one = TcpStream::connect(listener.local_addr()?)?;
        one.set_nodelay(true)?;
        let (mut other, _) = listener.accept()?;
        let mut buffer = vec![0; bytes.len()];
        let mut failed = None;
        let both = each(|| {
            let sent = one.write_all(&bytes).and_then(|()| other.read_exact(&mut buffer));
            failed = sent.err().or(failed.take());
        });
        if let Some(error) = failed {
            return Err(error);
        }

        let mut request = Vec::new();
        encode_command(&mut request, &["HSET", "rubis:user:17", "nickname", "somebody"]);
        let command = each(|| {
            let mut parser = RequestParser::new();
            std::hint::black_box(parser.next(&request).is_ok());
        });
        Ok(Costs { message: encoding.midpoint(decoding), system_call: both / 2, command })
    }
}

/// The nanoseconds that this takes at best, on average over a stretch of repetitions: what others do on the
/// machine only makes it longer.
fn each(mut what: impl FnMut()) -> u64 {
    let stretch = |_| {
        let begin = ThreadTime::now();
        (0..TIMES / 10).for_each(|_| what());
        begin.elapsed().as_nanos() as u64 / u64::from(TIMES / 10)
    };
    (0..10).map(stretch).min().unwrap_or(0)
}

/// What most messages between sites are: a stretch of history with one small transaction.
fn message() -> Message {
    let topology = Arc::new(Topology { partitions: 1, workers: vec![1, 1] });
    let mut replica =
        Replica::new(Config::new(Address { site: SiteId(0), worker: 0 }, topology), 0);
    let fields =
        ["winner", "amount"].map(|field| (field.as_bytes().into(), b"1234".as_slice().into()));
    let command = Command::Execute {
        past: Vector::zero(2),
        level: Level::Causal,
        key: b"rubis:auction:1234".as_slice().into(),
        op: Op::HashSet(fields.to_vec()),
    };
    let at = |ms: u64| Now {
        monotonic: Monotonic(ms * 1_000_000),
        physical: Physical(EPOCH + ms * 1000),
    };
    replica.handle(at(0), Input::Client { request: RequestId(0), command });
    let sent = (1..).find_map(|ms| {
        replica.on_deadline(at(ms));
        let mut outputs = std::iter::from_fn(|| replica.poll_output());
        outputs.find_map(|output| match output {
            Output::Send { message: message @ Message::Replicate(_), .. } => Some(message),
            _ => None,
        })
    });
    sent.expect("what commits is told to the siblings")
}

/// How long a thread has computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Computed(ThreadTime);

impl Computed {
    pub(crate) fn begin() -> Computed {
        Computed(ThreadTime::now())
    }

    pub(crate) fn so_far(self) -> Duration {
        self.0.elapsed()
    }
}
