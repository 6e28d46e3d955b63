//! SOLERA.EXPORT: reads all keys in one snapshot, for `solera backup`.

use std::time::{Duration, Instant};

use solera_config::ClusterSpec;
use solera_data::{Key, Outcome, RESERVED};
use solera_machine::PartitionId;
use solera_resp::{Arguments, Writer, parse_integer};
use solera_time::Vector;

use super::dbsize::count_keys;
use super::request::Request;
use crate::context::{Context, Unreachable};
use crate::finals::FinalState;
use crate::scan::{Ask, Cursor, Page};
use crate::session::ClientSession;

/// Maximal time to wait for a page. A worker cannot answer until the transactions that were
/// prepared when the snapshot was taken are decided.
const PATIENCE: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(2);
/// Begin of the keys of moves of homes, after [`RESERVED`].
const MOVES: &[u8] = b"homes:";

/// SOLERA.EXPORT [partition cursor].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Export {
    /// Describes the open transaction's snapshot.
    Introduce,
    /// Reads the next page of a partition in that snapshot.
    Page { partition: PartitionId, from: From },
}

/// The beginning of a page. The keys that UniStore holds come first, and then those of Occult.
/// Those of the speculative space, which has no partitions, come last in the first partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// The first key of UniStore, or what follows the cursor.
    UniStore(Option<Cursor>),
    /// The first key of Occult, or the one after this key.
    Occult(Option<Key>),
    /// The page with this number of the keys of the speculative space.
    Speculative(u64),
}

impl From {
    /// Encodes the cursor as opaque bytes for a client to send back.
    fn encode(&self) -> Vec<u8> {
        match self {
            From::UniStore(None) => b"0".to_vec(),
            From::UniStore(Some(cursor)) => cursor.encode(),
            From::Occult(None) => b"p".to_vec(),
            From::Occult(Some(key)) => [b"o".as_slice(), key.as_bytes()].concat(),
            From::Speculative(number) => format!("s{number}").into_bytes(),
        }
    }

    /// Decodes the bytes of [`From::encode`]. Returns `None` for other bytes.
    fn decode(bytes: &[u8]) -> Option<From> {
        match bytes {
            b"0" => Some(From::UniStore(None)),
            b"p" => Some(From::Occult(None)),
            [b'o', key @ ..] => Some(From::Occult(Some(key.into()))),
            [b's', number @ ..] => {
                let number = parse_integer(number)?;
                Some(From::Speculative(number.try_into().ok()?))
            }
            other => Some(From::UniStore(Some(Cursor::decode(other)?))),
        }
    }
}

impl Request for Export {
    fn admit<W: Context>(session: &mut ClientSession<W>) -> Result<(), String> {
        if session.worker.is_guarded() && !session.identity.reads_all_keys() {
            return Err(
                "NOPERM SOLERA.EXPORT shows every key; this user needs the keys '*' or '%R~*' for it"
                    .to_owned(),
            );
        }
        session.snapshot().map(|_| ())
    }

    fn parse(arguments: &Arguments<'_>, spec: &ClusterSpec) -> Result<Export, String> {
        match arguments.len() {
            1 => Ok(Export::Introduce),
            3 => {
                let number = parse_integer(arguments.get(1));
                let number = number.and_then(|number| u16::try_from(number).ok());
                let Some(partition) = number.filter(|number| *number < spec.partitions) else {
                    let partitions = spec.partitions;
                    return Err(format!("ERR there are {partitions} partitions, from 0"));
                };
                let from = From::decode(arguments.get(2)).ok_or("ERR invalid cursor")?;
                Ok(Export::Page { partition: PartitionId(partition), from })
            }
            _ => Err("ERR wrong number of arguments for 'solera.export' command".to_owned()),
        }
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        let snapshot = match session.snapshot() {
            Ok(snapshot) => snapshot,
            Err(error) => return session.fail(error),
        };
        remember_processes(session);
        match self {
            Export::Introduce => introduce(session, &snapshot).await,
            Export::Page { partition, from } => {
                match page(session, partition, snapshot, from).await {
                    Ok((entries, next)) => write_page(&mut session.out, &entries, next.as_ref()),
                    Err(error) => session.fail(error),
                }
            }
        }
    }
}

/// Returns the keys of a page with their contents, and the beginning of the next page.
///
/// # Errors
/// The error reply.
async fn page<W: Context>(
    session: &mut ClientSession<W>,
    partition: PartitionId,
    snapshot: Vector,
    from: From,
) -> Result<(Vec<(Key, Outcome)>, Option<From>), String> {
    let spaces = &session.worker.spec().spaces;
    let of_occult = spaces.run_occult().then_some(From::Occult(None));
    let is_last = partition == PartitionId(0) && spaces.run_speculative();
    let speculative = is_last.then_some(From::Speculative(0));
    match from {
        From::UniStore(from) => {
            let Page { entries, next } = find(session, Ask { partition, snapshot, from }).await?;
            let next = next.map(|next| From::UniStore(Some(next)));
            Ok((entries, next.or(of_occult).or(speculative)))
        }
        From::Occult(after) => {
            let (entries, next) = session.pcpsi_page(partition, after).await?;
            Ok((entries, next.map(|key| From::Occult(Some(key))).or(speculative)))
        }
        From::Speculative(_) if !is_last => Err("ERR invalid cursor".to_owned()),
        From::Speculative(number) => {
            let (entries, more) = session.speculative_page(number).await?;
            Ok((entries, more.then_some(From::Speculative(number.saturating_add(1)))))
        }
    }
}

async fn introduce<W: Context>(session: &mut ClientSession<W>, snapshot: &Vector) {
    let (keys, missing) = count_keys(session).await;
    if let Some(missing) = missing {
        return session.fail(missing.to_string());
    }
    let spec = session.worker.spec().clone();
    let run_occult = spec.spaces.run_occult();
    if run_occult && let Err(error) = session.begin_pcpsi_snapshot().await {
        return session.fail(error);
    }
    let state = match spec.spaces.run_speculative() {
        true => match session.begin_speculative_export().await {
            Ok(state) => Some(state),
            Err(error) => return session.fail(error),
        },
        false => None,
    };
    let site = session.worker.site_name(session.worker.address().site).to_owned();
    let out = &mut session.out;
    out.map(7 + usize::from(state.is_some()));
    for (what, text) in [("cluster", &spec.name), ("site", &site)] {
        out.bulk(what.as_bytes());
        out.bulk(text.as_bytes());
    }
    for (what, number) in [("partitions", i64::from(spec.partitions)), ("keys", keys as i64)] {
        out.bulk(what.as_bytes());
        out.integer(number);
    }
    out.bulk(b"sites");
    out.array(spec.sites.len());
    spec.sites.iter().for_each(|site| out.bulk(site.name.as_bytes()));
    // A backup states which spaces it contains.
    out.bulk(b"protocols");
    let occult = run_occult.then_some(solera_occult::PROTOCOL.number);
    let creek = state.map(|_| solera_creek::PROTOCOL.number);
    let others = occult.into_iter().chain(creek);
    let protocols: Vec<u8> = [solera_unistore::PROTOCOL.number].into_iter().chain(others).collect();
    out.array(protocols.len());
    protocols.iter().for_each(|number| out.integer(i64::from(*number)));
    out.bulk(b"snapshot");
    out.array(spec.sites.len());
    snapshot.first(spec.sites.len()).iter().for_each(|ts| out.integer(ts.0 as i64));
    if let Some(FinalState { finals, digest, left_out }) = state {
        out.bulk(b"speculative");
        out.map(3);
        for (what, number) in [("final", finals), ("left-out", left_out)] {
            out.bulk(what.as_bytes());
            out.integer(number.try_into().unwrap_or(i64::MAX));
        }
        out.bulk(b"digest");
        out.bulk(format!("{digest:016x}").as_bytes());
    }
}

/// Records which processes run the site's workers. A process that restarts may lose the snapshot.
fn remember_processes<W: Context>(session: &mut ClientSession<W>) {
    let worker = &session.worker;
    if let Some(open) = session.mode.open_mut().filter(|open| open.scanned.is_empty()) {
        open.scanned = worker.workers().map(|other| worker.process_of(other)).collect();
    }
}

/// Asks the partition's worker for a page until it answers or [`PATIENCE`] has passed.
async fn find<W: Context>(session: &mut ClientSession<W>, ask: Ask) -> Result<Page, String> {
    let worker = &session.worker;
    let owner = worker.with(|replica| replica.holder_of(ask.partition));
    let started = Instant::now();
    let page = loop {
        let answer = worker.scan(owner, ask.clone()).await;
        match answer {
            Some(Some(page)) => break page,
            _ if started.elapsed() < PATIENCE => tokio::time::sleep(AGAIN).await,
            Some(None) => {
                return Err("TRYAGAIN a transaction on the partition is not decided".to_owned());
            }
            None => return Err(Unreachable(worker.node_name(owner)).to_string()),
        }
    };
    let open = session.mode.open_mut();
    let before = open.and_then(|open| open.scanned.get(usize::from(owner.worker)).copied()?);
    if before.is_none() || before != worker.process_of(owner) {
        return Err(format!(
            "TRYAGAIN {} restarted during the export and may have forgotten the snapshot; start again",
            worker.node_name(owner)
        ));
    }
    Ok(page)
}

fn write_page(out: &mut Writer, entries: &[(Key, Outcome)], next: Option<&From>) {
    out.array(2);
    match next {
        Some(next) => out.bulk(&next.encode()),
        None => out.bulk(b"0"),
    }
    let entries = || entries.iter().filter(|(key, _)| !is_move(key));
    out.array(entries().count());
    entries().for_each(|(key, content)| write_entry(out, key, content));
}

/// Returns whether UniStore stores a move of homes under a key. Moves are part of one cluster's
/// history, and must not be restored into another one.
fn is_move(key: &Key) -> bool {
    key.as_bytes().strip_prefix(RESERVED.as_bytes()).is_some_and(|rest| rest.starts_with(MOVES))
}

/// Appends an array: the key, its type, and its content.
fn write_entry(out: &mut Writer, key: &Key, content: &Outcome) {
    let mut begin = |kind: &[u8], length: usize| {
        out.array(2 + length);
        out.bulk(key);
        out.bulk(kind);
    };
    match content {
        Outcome::Members(members) => {
            begin(b"set", members.len());
            members.iter().for_each(|member| out.bulk(member));
        }
        Outcome::Pairs(pairs) => {
            begin(b"hash", 2 * pairs.len());
            for (field, value) in pairs {
                out.bulk(field);
                out.bulk(value);
            }
        }
        Outcome::Bulk(value) => {
            begin(b"string", 1);
            out.bulk(value);
        }
        other => unreachable!("a sound page does not hold {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::testing::{parse, rejects};
    use super::*;

    #[test]
    fn a_page_is_named_by_partition_and_cursor() {
        assert_eq!(parse("SOLERA.EXPORT"), Ok(Export::Introduce));
        let page = |from| Ok(Export::Page { partition: PartitionId(3), from });
        let cursor = Cursor { key: "a".into(), element: None };
        for (bytes, from) in [
            ("0", From::UniStore(None)),
            ("ka", From::UniStore(Some(cursor))),
            ("p", From::Occult(None)),
            ("o", From::Occult(Some("".into()))),
            ("oa:b", From::Occult(Some("a:b".into()))),
            ("s0", From::Speculative(0)),
            ("s12", From::Speculative(12)),
        ] {
            assert_eq!(from.encode(), bytes.as_bytes());
            assert_eq!(parse(&format!("SOLERA.EXPORT 3 {bytes}")), page(from));
        }
    }

    #[test]
    fn bad_arguments_are_rejected() {
        rejects::<Export>(&[
            ("SOLERA.EXPORT 1", "ERR wrong number of arguments for 'solera.export' command"),
            ("SOLERA.EXPORT 1 x", "ERR invalid cursor"),
            ("SOLERA.EXPORT 1 s", "ERR invalid cursor"),
            ("SOLERA.EXPORT 1 s-1", "ERR invalid cursor"),
        ]);
        for line in ["SOLERA.EXPORT x 0", "SOLERA.EXPORT 65535 x", "SOLERA.EXPORT -1 0"] {
            let error = parse::<Export>(line).unwrap_err();
            assert!(error.starts_with("ERR there are ") && error.ends_with(" partitions, from 0"));
        }
    }
}
