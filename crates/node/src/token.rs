//! Tokens: a session's pasts, to be carried to another site.
//!
//! `docs/formats/token.md` draws the bytes.

use std::fmt;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use solera_time::{MAX_SITES, SiteId, Timestamp, Vector};
use solera_unistore::Pasts;

const PREFIX: &str = "solera-2-";
/// What tokens of all versions begin with; a version and a hyphen follow.
const FAMILY: &[u8] = b"solera-";
const HEADER: usize = 8 + 1;
/// The causal past, the eventual writes, and what covers their snapshots.
const VECTORS: usize = 3;

/// A session's causal and durability past, bound to their cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// The cluster it belongs to.
    pub cluster: u64,
    /// The pasts.
    pub pasts: Pasts,
}

/// Text that is no token of this cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// Not a token at all.
    NotAToken,
    /// A token of a version that this program does not read.
    OtherVersion,
    /// Cut short or altered.
    Damaged,
    /// A token of another cluster, or of an earlier run.
    OtherCluster,
    /// It tells of sites that are not listed.
    MoreSites,
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TokenError::NotAToken => {
                "this is not a token; take one with SOLERA.TOKEN, it begins with 'solera-2-'"
            }
            TokenError::OtherVersion => {
                "the token is of another version: this server reads tokens that begin with 'solera-2-', \
                 which carry a causal and a durability past; take a new one with SOLERA.TOKEN"
            }
            TokenError::Damaged => "the token is damaged; copy it whole",
            TokenError::OtherCluster => {
                "the token belongs to another cluster, or to an earlier run of this one, whose data \
                 is gone"
            }
            TokenError::MoreSites => {
                "the token tells of sites that this node's configuration does not list"
            }
        })
    }
}

impl std::error::Error for TokenError {}

impl Token {
    /// The token as text, safe to copy and paste.
    pub fn encode(&self) -> String {
        let mut bytes = self.cluster.to_be_bytes().to_vec();
        let vectors = [&self.pasts.causal, self.pasts.eventual(), self.pasts.eventual_snap()];
        let sites = vectors.iter().map(|vector| vector.entries().len()).max().unwrap_or(0);
        bytes.push(sites as u8);
        for vector in vectors {
            for ts in vector.first(sites).iter().chain([&vector.strong]) {
                bytes.extend_from_slice(&ts.0.to_be_bytes());
            }
        }
        let checksum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_be_bytes());
        let mut text = PREFIX.to_owned();
        HEXLOWER.encode_append(&bytes, &mut text);
        text
    }

    /// Reads a token of the cluster `cluster` with `sites` sites. It may be of a node that lists fewer of
    /// them, or more of which it says nothing.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub fn decode(text: &[u8], cluster: u64, sites: usize) -> Result<Token, TokenError> {
        let hex = text.strip_prefix(PREFIX.as_bytes()).ok_or_else(|| refusal(text))?;
        let bytes = HEXLOWER_PERMISSIVE.decode(hex).map_err(|_| TokenError::Damaged)?;
        let (body, checksum) = bytes.split_last_chunk::<4>().ok_or(TokenError::Damaged)?;
        if crc32c::crc32c(body) != u32::from_be_bytes(*checksum) || body.len() < HEADER {
            return Err(TokenError::Damaged);
        }
        let (head, entries) = body.split_at(HEADER);
        let count = usize::from(head[8]);
        if entries.len() != VECTORS * (count + 1) * 8 || count > MAX_SITES {
            return Err(TokenError::Damaged);
        }
        if number(&head[..8]) != cluster {
            return Err(TokenError::OtherCluster);
        }
        let mut entries = entries.chunks_exact(8).map(|entry| Timestamp(number(entry)));
        let vectors = [(); VECTORS].map(|()| {
            let order = SiteId::all(count).chain([SiteId::STRONG]);
            order.fold(Vector::zero(count), |vector, site| {
                vector.with(site, entries.next().unwrap_or_default())
            })
        });
        if vectors.iter().any(|vector| !vector.is_within(sites)) {
            return Err(TokenError::MoreSites);
        }
        let [causal, eventual, eventual_snap] = vectors;
        let pasts = Pasts::causal(causal).with_eventual(&eventual, &eventual_snap);
        Ok(Token { cluster, pasts })
    }
}

/// Why a text without the prefix of this version is refused.
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
        }
    }

    fn read_back(token: &Token, sites: usize) -> Token {
        Token::decode(token.encode().as_bytes(), 0xfeed, sites).unwrap()
    }

    #[test]
    fn a_token_is_read_back() {
        let text = token().encode();
        assert!(text.is_ascii());
        assert_eq!(read_back(&token(), 3), token());
    }

    #[test]
    fn tokens_without_a_durability_past_are_refused_in_words() {
        // As version 1 had it: the cluster, one site, its entry, the strong entry and the checksum.
        let mut bytes = [&0xfeed_u64.to_be_bytes()[..], &[1], &[0; 16]].concat();
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_be_bytes());
        let hex = HEXLOWER.encode(&bytes);
        let decode = |text: String| Token::decode(text.as_bytes(), 0xfeed, 1);
        assert_eq!(decode(format!("solera-1-{hex}")), Err(TokenError::OtherVersion));
        assert_eq!(decode(format!("solera-30-{hex}")), Err(TokenError::OtherVersion));
        assert_eq!(decode(format!("solera-2-{hex}")), Err(TokenError::Damaged));
        assert!(TokenError::OtherVersion.to_string().contains("durability past"));
        for text in ["solera-", "solera--", "solera-x-1"] {
            assert_eq!(decode(text.to_owned()), Err(TokenError::NotAToken), "{text}");
        }
    }

    #[test]
    fn every_change_is_noticed() {
        let text = token().encode().into_bytes();
        for at in 0..text.len() {
            let mut changed = text.clone();
            changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
            assert!(Token::decode(&changed, 0xfeed, 3).is_err(), "byte {at}");
            assert!(Token::decode(&text[..at], 0xfeed, 3).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn tokens_of_other_clusters_are_told_apart() {
        let text = token().encode();
        let decode = |cluster, sites| Token::decode(text.as_bytes(), cluster, sites);
        assert_eq!(decode(0xbeef, 3), Err(TokenError::OtherCluster));
        assert_eq!(decode(0xfeed, 2), Err(TokenError::MoreSites));
        assert_eq!(Token::decode(b"hello", 1, 3), Err(TokenError::NotAToken));
    }

    #[test]
    fn tokens_stay_good_while_the_list_of_sites_grows() {
        assert_eq!(read_back(&token(), 5), token());
        let past = Vector::zero(4).with(SiteId(1), Timestamp(9));
        let long =
            Token { cluster: 0xfeed, pasts: Pasts::causal(past).with_eventual(&past, &past) };
        assert_eq!(read_back(&long, 2), long);
    }
}
