//! Tokens: a session's pasts as text, which another site can attach.
//!
//! `docs/formats/token.md` shows the bytes.

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use solera_machine::{Foreign, Protocol, codec};
use solera_occult::CausalTimestamp;
use solera_primary::Past;
use solera_unistore::Pasts;

const PREFIX: &str = "solera-3-";
/// Common prefix of the tokens of all versions. A version and a hyphen follow.
const FAMILY: &[u8] = b"solera-";
/// Length of the header: the cluster, and the number of pasts that follow, each after its length.
const HEADER: usize = 8 + 1;
/// Protocols whose pasts this version reads.
const PROTOCOLS: &[Protocol] = &[
    solera_unistore::PROTOCOL,
    solera_primary::PROTOCOL,
    solera_occult::PROTOCOL,
    solera_creek::PROTOCOL,
];
/// Number of shards that exist in every cluster, as far as a token's reader knows; the session
/// checks the rest.
const MOST_SHARDS: u16 = u16::MAX;

/// Past of a session, bound to its cluster: everything that it has seen and written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Number of the cluster that the token belongs to.
    pub cluster: u64,
    /// The causal and the durability past.
    pub pasts: Pasts,
    /// Past of the session on keys that `primary` holds. An empty past is not encoded.
    pub primary: Past,
    /// Causal past of the session on keys that Occult holds, and the number of moves of homes that
    /// were carried out then; `None` if it is empty.
    pub occult: Option<(CausalTimestamp, u64)>,
    /// Past of the session in the speculative space. An empty past is not encoded.
    pub speculative: solera_creek::Past,
}

/// Reason why a text is not a token of this cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The text is not a token.
    #[error("this is not a token; take one with SOLERA.TOKEN, it begins with 'solera-3-'")]
    NotAToken,
    /// The token is of a version that this program does not read.
    #[error(
        "the token is of another version: this server reads tokens that begin with 'solera-3-', \
         which name a version for each protocol; take a new one with SOLERA.TOKEN"
    )]
    OtherVersion,
    /// The token was cut short or altered.
    #[error("the token is damaged; copy it whole")]
    Damaged,
    /// The token belongs to another cluster, or to an earlier run of this one.
    #[error(
        "the token belongs to another cluster, or to an earlier run of this one, whose data is \
         gone"
    )]
    OtherCluster,
    /// The token contains the past of an unknown protocol, or of an unknown version of one.
    #[error("this node cannot read a part of the token: {0}")]
    Foreign(Foreign),
    /// The token refers to sites that the configuration does not list.
    #[error("the token refers to sites that this node's configuration does not list")]
    MoreSites,
}

impl Token {
    /// Returns the token as text that is safe to copy and paste; `None` if a past is too long for
    /// tokens.
    pub fn encode(&self) -> Option<String> {
        let mut pasts = vec![Vec::new()];
        self.pasts.encode(&mut pasts[0]);
        if !self.primary.is_empty() {
            let mut past = Vec::new();
            self.primary.encode(&mut past);
            pasts.push(past);
        }
        if let Some((occult, epoch)) = &self.occult {
            let mut past = solera_occult::PROTOCOL.past_header().to_vec();
            past.extend_from_slice(&epoch.to_be_bytes());
            occult.encode(&mut past);
            pasts.push(past);
        }
        if !self.speculative.is_empty() {
            let mut past = solera_creek::PROTOCOL.past_header().to_vec();
            codec::append(&self.speculative, &mut past);
            pasts.push(past);
        }
        let mut bytes = self.cluster.to_be_bytes().to_vec();
        bytes.push(pasts.len() as u8);
        for past in pasts {
            bytes.extend_from_slice(&u16::try_from(past.len()).ok()?.to_be_bytes());
            bytes.extend_from_slice(&past);
        }
        let checksum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_be_bytes());
        let mut text = PREFIX.to_owned();
        HEXLOWER.encode_append(&bytes, &mut text);
        Some(text)
    }

    /// Decodes a token of the cluster `cluster` with these numbers of sites and partitions. The
    /// token may come from a node that lists fewer sites, or more sites of which it has seen
    /// nothing.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub fn decode(
        text: &[u8],
        cluster: u64,
        (sites, partitions): (usize, u16),
    ) -> Result<Token, TokenError> {
        let hex = text.strip_prefix(PREFIX.as_bytes()).ok_or_else(|| refusal(text))?;
        let bytes = HEXLOWER_PERMISSIVE.decode(hex).map_err(|_| TokenError::Damaged)?;
        let (body, checksum) = bytes.split_last_chunk::<4>().ok_or(TokenError::Damaged)?;
        if crc32c::crc32c(body) != u32::from_be_bytes(*checksum) || body.len() < HEADER {
            return Err(TokenError::Damaged);
        }
        let (head, rest) = body.split_at(HEADER);
        if number(&head[..8]) != cluster {
            return Err(TokenError::OtherCluster);
        }
        let (mut pasts, mut primary, mut occult) = (None, Past::default(), None);
        let mut speculative = solera_creek::Past::default();
        for (protocol, past) in pasts_of(head[8], rest)? {
            match protocol {
                solera_unistore::PROTOCOL if pasts.is_none() => pasts = Pasts::decode(past),
                solera_primary::PROTOCOL if primary.is_empty() => {
                    let past = Past::decode(past, partitions).filter(|past| !past.is_empty());
                    primary = past.ok_or(TokenError::Damaged)?;
                }
                solera_occult::PROTOCOL if occult.is_none() => {
                    let (epoch, past) = past.split_first_chunk().ok_or(TokenError::Damaged)?;
                    let decoded = CausalTimestamp::decode(past, MOST_SHARDS);
                    let past = decoded.ok().filter(|(past, rest)| {
                        rest.is_empty() && !past.is_empty() && past.is_within_sites(sites)
                    });
                    let (past, _) = past.ok_or(TokenError::Damaged)?;
                    occult = Some((past, u64::from_be_bytes(*epoch)));
                }
                solera_creek::PROTOCOL if speculative.is_empty() => {
                    let past = codec::take::<solera_creek::Past>(past);
                    let past = past.filter(|(past, rest)| rest.is_empty() && !past.is_empty());
                    (speculative, _) = past.ok_or(TokenError::Damaged)?;
                    if speculative.lasts().any(|last| last.site.index() >= sites) {
                        return Err(TokenError::MoreSites);
                    }
                }
                _ => return Err(TokenError::Damaged),
            }
        }
        let pasts = pasts.ok_or(TokenError::Damaged)?;
        match pasts.is_within(sites) {
            true => Ok(Token { cluster, pasts, primary, occult, speculative }),
            false => Err(TokenError::MoreSites),
        }
    }
}

/// Returns the protocol of each of `count` pasts, and the bytes that follow the protocol and its
/// version.
fn pasts_of(count: u8, mut rest: &[u8]) -> Result<Vec<(Protocol, &[u8])>, TokenError> {
    let mut pasts = Vec::new();
    for _ in 0..count {
        let (length, after) = rest.split_first_chunk().ok_or(TokenError::Damaged)?;
        let length = usize::from(u16::from_be_bytes(*length));
        let (past, after) = after.split_at_checked(length).ok_or(TokenError::Damaged)?;
        pasts.push(Protocol::read_past(PROTOCOLS, past).map_err(TokenError::Foreign)?);
        rest = after;
    }
    if rest.is_empty() { Ok(pasts) } else { Err(TokenError::Damaged) }
}

/// Returns the reason for rejecting a text without the prefix of this version.
fn refusal(text: &[u8]) -> TokenError {
    let version = text.strip_prefix(FAMILY).map(|rest| rest.split(|byte| *byte == b'-').next());
    match version.flatten() {
        Some(version) if !version.is_empty() && version.iter().all(u8::is_ascii_digit) => {
            TokenError::OtherVersion
        }
        _ => TokenError::NotAToken,
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use solera_machine::PartitionId;
    use solera_primary::Position;
    use solera_time::{SiteId, Timestamp, Vector};

    use super::*;

    fn token() -> Token {
        let mut past = Vector::zero(3);
        past[SiteId(0)] = Timestamp(1);
        past[SiteId(2)] = Timestamp(u64::MAX - 5);
        past.strong = Timestamp(12);
        let eventual = Vector::zero(3).with(SiteId(0), Timestamp(4)).with(SiteId(1), Timestamp(7));
        let mut eventual_snap = eventual.with(SiteId(2), Timestamp(9));
        eventual_snap.strong = Timestamp(3);
        Token {
            cluster: 0xfeed,
            pasts: Pasts::causal(past).with_eventual(&eventual, &eventual_snap),
            primary: Past::default(),
            occult: None,
            speculative: solera_creek::Past::default(),
        }
    }

    /// A token whose session has seen a key that `primary` holds.
    fn token_with_primary() -> Token {
        let mut primary = Past::default();
        primary.note(PartitionId(7), Position { epoch: 2, index: 300 });
        Token { primary, ..token() }
    }

    fn text(token: &Token) -> String {
        token.encode().expect("it is short")
    }

    fn decode(text: &[u8], cluster: u64, sites: usize) -> Result<Token, TokenError> {
        Token::decode(text, cluster, (sites, 8))
    }

    fn read_back(token: &Token, sites: usize) -> Token {
        decode(text(token).as_bytes(), 0xfeed, sites).unwrap()
    }

    #[test]
    fn a_token_is_read_back() {
        let text = text(&token());
        assert!(text.is_ascii());
        assert_eq!(read_back(&token(), 3), token());
        assert_eq!(read_back(&token_with_primary(), 3), token_with_primary());
    }

    #[test]
    fn a_past_of_primary_may_occur_once_and_only_with_existing_partitions() {
        let text = text(&token_with_primary());
        assert_eq!(Token::decode(text.as_bytes(), 0xfeed, (3, 7)), Err(TokenError::Damaged));
        let bytes = HEXLOWER.decode(&text.as_bytes()[PREFIX.len()..]).unwrap();
        let (body, _) = bytes.split_last_chunk::<4>().unwrap();
        assert_eq!(body[8], 2, "pasts");
        let first = 2 + usize::from(body[9]) * 256 + usize::from(body[10]);
        let second = &body[9 + first..];
        let mut twice = [body, second].concat();
        twice[8] = 3;
        let mut alone = [&body[..9], second].concat();
        alone[8] = 1;
        for body in [twice, alone] {
            let text = sealed(PREFIX, &body);
            assert_eq!(decode(text.as_bytes(), 0xfeed, 3), Err(TokenError::Damaged));
        }
        let mut long = Past::default();
        (0..20_000).for_each(|epoch| long.note(PartitionId(7), Position { epoch, index: 9 }));
        assert_eq!(Token { primary: long, ..token() }.encode(), None);
    }

    fn sealed(prefix: &str, body: &[u8]) -> String {
        let checksum = crc32c::crc32c(body).to_be_bytes();
        format!("{prefix}{}", HEXLOWER.encode(&[body, &checksum].concat()))
    }

    #[test]
    fn tokens_of_other_versions_and_protocols_are_rejected_with_a_reason() {
        let text = text(&token());
        let bytes = HEXLOWER.decode(&text.as_bytes()[PREFIX.len()..]).unwrap();
        let (body, _) = bytes.split_last_chunk::<4>().unwrap();
        let decode = |text: String| decode(text.as_bytes(), 0xfeed, 3);
        assert_eq!(decode(sealed(PREFIX, body)), Ok(token()));
        assert_eq!(decode(sealed("solera-2-", body)), Err(TokenError::OtherVersion));
        assert_eq!(decode(sealed("solera-30-", body)), Err(TokenError::OtherVersion));
        let with = |at: usize, byte: u8| {
            let mut body = body.to_vec();
            body[at] = byte;
            decode(sealed(PREFIX, &body)).unwrap_err()
        };
        assert!(
            with(11, 7).to_string().contains("of protocol 7, and this build knows 1 (UniStore)")
        );
        assert!(with(12, 7).to_string().contains("of version 7 of UniStore"));
        // Number of pasts, length of the first, number of sites in it.
        for at in [8, 10, 13] {
            for byte in [0, 2, 200] {
                let error = with(at, byte);
                let damaged = [TokenError::Damaged, TokenError::Foreign(Foreign::Short)];
                assert!(damaged.contains(&error), "byte {at} is {byte}: {error}");
            }
        }
        for text in ["solera-", "solera--", "solera-x-1"] {
            assert_eq!(decode(text.to_owned()), Err(TokenError::NotAToken), "{text}");
        }
    }

    #[test]
    fn every_change_is_noticed() {
        let text = text(&token()).into_bytes();
        for at in 0..text.len() {
            let mut changed = text.clone();
            changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
            assert!(decode(&changed, 0xfeed, 3).is_err(), "byte {at}");
            assert!(decode(&text[..at], 0xfeed, 3).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn tokens_of_other_clusters_are_rejected() {
        let text = text(&token());
        let with = |cluster, sites| decode(text.as_bytes(), cluster, sites);
        assert_eq!(with(0xbeef, 3), Err(TokenError::OtherCluster));
        assert_eq!(with(0xfeed, 2), Err(TokenError::MoreSites));
        assert_eq!(decode(b"hello", 1, 3), Err(TokenError::NotAToken));
    }

    #[test]
    fn tokens_stay_good_while_the_list_of_sites_grows() {
        assert_eq!(read_back(&token(), 5), token());
        let past = Vector::zero(4).with(SiteId(1), Timestamp(9));
        let long = Token { pasts: Pasts::causal(past).with_eventual(&past, &past), ..token() };
        assert_eq!(read_back(&long, 2), long);
    }
}
