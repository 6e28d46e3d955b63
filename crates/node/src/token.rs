//! Tokens: a session's causal past, to be carried to another site.
//!
//! `docs/formats/token.md` draws the bytes.

use std::fmt;

use solera_time::{MAX_SITES, SiteId, Timestamp, Vector};

const PREFIX: &str = "solera-1-";
const HEADER: usize = 8 + 1;

/// A session's causal past, bound to its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// The cluster it belongs to.
    pub cluster: u64,
    /// The causal past.
    pub past: Vector,
}

/// Text that is no token of this cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// Not a token at all, or one of another version.
    NotAToken,
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
                "this is not a token; take one with SOLERA.TOKEN, it begins with 'solera-1-'"
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
        bytes.push(self.past.entries().len() as u8);
        for ts in self.past.entries().iter().chain([&self.past.strong]) {
            bytes.extend_from_slice(&ts.0.to_be_bytes());
        }
        let checksum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_be_bytes());
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{PREFIX}{hex}")
    }

    /// Reads a token of the cluster `cluster` with `sites` sites. It may be of a node that lists fewer of
    /// them, or more of which it says nothing.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub fn decode(text: &[u8], cluster: u64, sites: usize) -> Result<Token, TokenError> {
        let hex = text.strip_prefix(PREFIX.as_bytes()).ok_or(TokenError::NotAToken)?;
        let bytes = unhex(hex).ok_or(TokenError::Damaged)?;
        let (body, checksum) = bytes.split_last_chunk::<4>().ok_or(TokenError::Damaged)?;
        if crc32c::crc32c(body) != u32::from_be_bytes(*checksum) || body.len() < HEADER {
            return Err(TokenError::Damaged);
        }
        let (head, entries) = body.split_at(HEADER);
        let count = usize::from(head[8]);
        if entries.len() != (count + 1) * 8 || count > MAX_SITES {
            return Err(TokenError::Damaged);
        }
        if number(&head[..8]) != cluster {
            return Err(TokenError::OtherCluster);
        }
        let mut past = Vector::zero(count);
        let mut entries = entries.chunks_exact(8).map(|entry| Timestamp(number(entry)));
        for site in SiteId::all(count) {
            past[site] = entries.next().unwrap_or_default();
        }
        past.strong = entries.next().unwrap_or_default();
        if past.is_within(sites) { Ok(Token { cluster, past }) } else { Err(TokenError::MoreSites) }
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pairs = text.chunks(2);
    pairs.map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> Token {
        let mut past = Vector::zero(3);
        past[SiteId(0)] = Timestamp(1);
        past[SiteId(2)] = Timestamp(u64::MAX - 5);
        Token { cluster: 0xfeed, past }
    }

    #[test]
    fn a_token_is_read_back() {
        let text = token().encode();
        assert!(text.is_ascii());
        assert_eq!(Token::decode(text.as_bytes(), 0xfeed, 3), Ok(token()));
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
        let text = token().encode();
        let Token { past, .. } = Token::decode(text.as_bytes(), 0xfeed, 5).unwrap();
        assert_eq!(past, token().past);
        let long = Token { cluster: 0xfeed, past: Vector::zero(4).with(SiteId(1), Timestamp(9)) };
        let read = Token::decode(long.encode().as_bytes(), 0xfeed, 2);
        assert_eq!(read, Ok(long));
    }
}
