//! The first messages between two nodes; `docs/formats/wire.md` shows the format.

use crate::card::Card;
use crate::frame::VERSION;
use crate::refusal::Refusal;

const MAGIC: [u8; 8] = *b"SOLERAPL";
/// Length of magic, version, kind, length and checksum: the same in every version.
pub const HEAD: usize = 8 + 2 + 1 + 4 + 4;
/// Longest greeting that is read, in bytes.
const MAX_GREETING: usize = 64 * 1024;

/// The first message of a node on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Greeting {
    /// The caller's greeting.
    Hello(Card),
    /// The greeting of the called node if it accepts the caller.
    Welcome(Card),
    /// The reason for which the called node refuses the caller.
    Refusal(String),
    /// A refusal of a caller that can no longer take part with its data, and should stop.
    Farewell(String),
    /// A refusal of a caller that may be accepted a moment later.
    NotNow(String),
}

impl Greeting {
    /// Returns the encoded greeting.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, body) = match self {
            Greeting::Hello(card) => (1, postcard::to_stdvec(card)),
            Greeting::Welcome(card) => (2, postcard::to_stdvec(card)),
            Greeting::Refusal(reason) => (3, Ok(reason.clone().into_bytes())),
            Greeting::Farewell(reason) => (4, Ok(reason.clone().into_bytes())),
            Greeting::NotNow(reason) => (5, Ok(reason.clone().into_bytes())),
        };
        let body = body.expect("cards have a serialised form");
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_be_bytes());
        bytes.push(kind);
        bytes.extend_from_slice(&(body.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&body).to_be_bytes());
        bytes.extend_from_slice(&body);
        bytes
    }

    /// Returns whether the first bytes of a connection may be those of a greeting of any version.
    pub fn may_begin_with(bytes: &[u8]) -> bool {
        bytes.iter().zip(&MAGIC).all(|(found, expected)| found == expected)
    }

    /// Returns the length of the body that follows this head.
    ///
    /// # Errors
    /// The bytes are not a greeting that this version can read. A refusal can be read in any
    /// version.
    pub fn body_length(head: &[u8; HEAD]) -> Result<usize, Refusal> {
        if !Greeting::may_begin_with(head) {
            return Err(Refusal::NotSolera);
        }
        let version = u16::from_be_bytes([head[8], head[9]]);
        if version != VERSION && head[10] != 3 {
            return Err(Refusal::Version(version));
        }
        let length = u32::from_be_bytes([head[11], head[12], head[13], head[14]]) as usize;
        if length > MAX_GREETING { Err(Refusal::Damaged) } else { Ok(length) }
    }

    /// Decodes a greeting whose head has passed [`Greeting::body_length`].
    ///
    /// # Errors
    /// The greeting is damaged.
    pub fn decode(head: &[u8; HEAD], body: &[u8]) -> Result<Greeting, Refusal> {
        let checksum = u32::from_be_bytes([head[15], head[16], head[17], head[18]]);
        if crc32c::crc32c(body) != checksum {
            return Err(Refusal::Damaged);
        }
        let card = || match postcard::take_from_bytes::<Card>(body) {
            Ok((card, [])) => Ok(card),
            _ => Err(Refusal::Damaged),
        };
        match head[10] {
            1 => Ok(Greeting::Hello(card()?)),
            2 => Ok(Greeting::Welcome(card()?)),
            3 => Ok(Greeting::Refusal(String::from_utf8_lossy(body).into_owned())),
            4 => Ok(Greeting::Farewell(String::from_utf8_lossy(body).into_owned())),
            5 => Ok(Greeting::NotNow(String::from_utf8_lossy(body).into_owned())),
            _ => Err(Refusal::Damaged),
        }
    }
}

impl Refusal {
    /// Returns the answer of a called node to a caller that it refuses. `words` is the reason,
    /// which may have been shortened.
    pub fn answer(&self, words: String) -> Greeting {
        match self {
            Refusal::Removed(_)
            | Refusal::OtherData(..)
            | Refusal::OlderCopy(..)
            | Refusal::LostData(..) => Greeting::Farewell(words),
            Refusal::Taken => Greeting::NotNow(words),
            _ => Greeting::Refusal(words),
        }
    }
}

#[cfg(test)]
mod tests {
    use solera_machine::NodeId;
    use solera_time::SiteId;

    use super::*;
    use crate::identity::Identity;

    fn card() -> Card {
        let [from, to] = [0, 1].map(|site| NodeId { site: SiteId(site), node: 0 });
        let identity = Identity {
            cluster: "x".to_owned(),
            id: 7,
            sites: vec![("eu".to_owned(), vec![1]), ("us".to_owned(), vec![2, 1])],
            agreed: vec![("partitions".to_owned(), "16".to_owned())],
            speaks: Vec::new(),
        };
        Card::new(&identity, from, to, 77, 5)
    }

    fn read(bytes: &[u8]) -> Result<Greeting, Refusal> {
        let (head, body) = bytes.split_first_chunk::<HEAD>().ok_or(Refusal::Damaged)?;
        let length = Greeting::body_length(head)?;
        Greeting::decode(head, body.get(..length).ok_or(Refusal::Damaged)?)
    }

    #[test]
    fn other_bytes_are_recognised_at_the_first_one() {
        for (bytes, may) in [
            (&b""[..], true),
            (b"S", true),
            (b"SOLERAPL\xff\xff", true),
            (b"P", false),
            (b"SET k v\r\n", false),
        ] {
            assert_eq!(Greeting::may_begin_with(bytes), may, "{bytes:?}");
        }
    }

    #[test]
    fn greetings_are_read_back() {
        let card = card();
        for greeting in [
            Greeting::Hello(card.clone()),
            Greeting::Welcome(card),
            Greeting::Refusal("no".to_owned()),
            Greeting::Farewell("gone".to_owned()),
            Greeting::NotNow("later".to_owned()),
        ] {
            assert_eq!(read(&greeting.encode()), Ok(greeting));
        }
    }

    #[test]
    fn malformed_greetings_are_refused() {
        let good = Greeting::Hello(card()).encode();
        let with = |at: usize, bytes: &[u8]| {
            let mut greeting = good.clone();
            greeting[at..at + bytes.len()].copy_from_slice(bytes);
            greeting
        };
        let refusal = Greeting::Refusal("too old".to_owned());
        let mut of_other_version = refusal.encode();
        of_other_version[9] += 1;
        assert_eq!(read(&of_other_version), Ok(refusal));
        for (bytes, refusal) in [
            (with(0, b"GET / HT"), Refusal::NotSolera),
            (with(8, &(VERSION + 1).to_be_bytes()), Refusal::Version(VERSION + 1)),
            (with(10, &[9]), Refusal::Damaged),
            (with(11, &[0xff; 4]), Refusal::Damaged),
            (with(11, &[0; 4]), Refusal::Damaged),
            (with(15, &[0; 4]), Refusal::Damaged),
            (with(30, &[0xff]), Refusal::Damaged),
            (good[..good.len() - 1].to_vec(), Refusal::Damaged),
        ] {
            assert_eq!(read(&bytes), Err(refusal), "{bytes:?}");
        }
    }
}
