//! Timestamps of all schemes against exact ones: a compressed timestamp never has a smaller stamp.

use solera_occult::{CausalTimestamp, Homes, Move, Scheme, ShardId, Stamp};
use solera_random::Random;
use solera_time::SiteId;

const SHARDS: u16 = 24;
const SCHEMES: [Scheme; 9] = [
    Scheme::Exact,
    Scheme::Structural(1),
    Scheme::Structural(5),
    Scheme::Temporal(1),
    Scheme::Temporal(2),
    Scheme::Temporal(6),
    Scheme::PerSite(1),
    Scheme::PerSite(2),
    Scheme::PerSite(4),
];

/// Homes whose shards move from time to time, and the greatest stamp that each shard has.
struct Shards {
    homes: Homes,
    last: Vec<Stamp>,
    /// All moves: shard, number and the last stamp before it.
    moves: Vec<(ShardId, u64, Stamp)>,
}

impl Shards {
    fn new() -> Shards {
        let home = |shard: ShardId| SiteId((shard.0 % 3) as u8);
        Shards {
            homes: Homes::new(SHARDS, home),
            last: vec![Stamp::ZERO; usize::from(SHARDS)],
            moves: Vec::new(),
        }
    }

    /// Assigns the next stamp to a write in some shard. The stamps of sites differ by their clocks.
    fn write(&mut self, random: &mut Random) -> (ShardId, Stamp) {
        let shard = ShardId(random.index(usize::from(SHARDS)) as u16);
        let skew = u64::from(self.homes.home(shard).0) * 1_000;
        let last = self.last[usize::from(shard.0)].max(Stamp(skew));
        let stamp = Stamp(last.0 + 1 + random.index(40) as u64);
        self.last[usize::from(shard.0)] = stamp;
        (shard, stamp)
    }

    fn move_one(&mut self, random: &mut Random) {
        let shard = ShardId(random.index(usize::from(SHARDS)) as u16);
        let to = SiteId(random.index(3) as u8);
        let next = Move { shards: vec![(shard, shard)], from: None, to: vec![to], forced: false };
        self.homes.carry_out(&next);
        // A worker learns last stamps late, in any order and repeatedly, including those of homes
        // that have become homes again meanwhile.
        self.moves.push((shard, self.homes.epoch(), self.last[usize::from(shard.0)]));
        if random.one_in(2) {
            let (shard, number, last) = self.moves[random.index(self.moves.len())];
            self.homes.note_last(shard, number, last);
        }
    }
}

fn knows_no_less(of: &CausalTimestamp, exact: &CausalTimestamp, homes: &Homes) {
    for shard in ShardId::all(SHARDS) {
        assert!(of.stamp(shard, homes) >= exact.stamp(shard, homes), "{shard:?}: {of:?} {exact:?}");
    }
}

/// List. 1 l. 1–3, 5–7, 13–15 and 17–20, with the compression of §5.
#[test]
fn no_timestamp_and_no_merge_of_two_knows_less_than_the_exact_ones() {
    for seed in 0..300 {
        let random = &mut Random::new(seed);
        let mut shards = Shards::new();
        // Each client has a timestamp of some scheme, and an exact one.
        let mut clients: Vec<_> = (0..4)
            .map(|_| {
                let scheme = SCHEMES[random.index(SCHEMES.len())];
                (CausalTimestamp::new(scheme), CausalTimestamp::new(Scheme::Exact))
            })
            .collect();
        for _ in 0..120 {
            let at = random.index(clients.len());
            match random.index(8) {
                0 => shards.move_one(random),
                1 | 2 => {
                    let (other, exact) = clients[random.index(4)].clone();
                    clients[at].0.merge(&other, &shards.homes);
                    clients[at].1.merge(&exact, &shards.homes);
                }
                _ => {
                    let (shard, stamp) = shards.write(random);
                    let home = shards.homes.home(shard);
                    clients[at].0.raise(shard, home, stamp);
                    clients[at].1.raise(shard, home, stamp);
                }
            }
            let (of, exact) = &clients[at];
            knows_no_less(of, exact, &shards.homes);
            assert!(of.greatest(shards.homes.home(ShardId(0))) >= Stamp::ZERO);
        }
    }
}

#[test]
fn a_merge_is_symmetric_and_changes_nothing_the_second_time() {
    for seed in 0..200 {
        let random = &mut Random::new(1_000 + seed);
        let mut shards = Shards::new();
        let scheme = SCHEMES[random.index(SCHEMES.len())];
        let mut of = [CausalTimestamp::new(scheme), CausalTimestamp::new(scheme)];
        for _ in 0..40 {
            let (shard, stamp) = shards.write(random);
            of[random.index(2)].raise(shard, shards.homes.home(shard), stamp);
        }
        let [one, two] = of;
        let merged = |a: &CausalTimestamp, b: &CausalTimestamp| {
            let mut merged = a.clone();
            merged.merge(b, &shards.homes);
            merged
        };
        let both = merged(&one, &two);
        assert_eq!(merged(&both, &one), both);
        assert_eq!(merged(&both, &two), both);
        let other_way = merged(&two, &one);
        for shard in ShardId::all(SHARDS) {
            let stamps = (both.stamp(shard, &shards.homes), other_way.stamp(shard, &shards.homes));
            assert_eq!(stamps.0, stamps.1, "{shard:?}");
        }
    }
}

#[test]
fn what_all_replicas_have_passed_is_forgotten_and_nothing_else() {
    for seed in 0..300 {
        let random = &mut Random::new(2_000 + seed);
        let mut shards = Shards::new();
        let scheme = SCHEMES[random.index(SCHEMES.len())];
        let mut of = CausalTimestamp::new(scheme);
        let mut exact = CausalTimestamp::new(Scheme::Exact);
        for _ in 0..40 {
            let (shard, stamp) = shards.write(random);
            of.raise(shard, shards.homes.home(shard), stamp);
            exact.raise(shard, shards.homes.home(shard), stamp);
        }
        let all = random.index(3) == 0;
        let mut lag = || if all { 0 } else { random.index(30) as u64 };
        let passed: Vec<_> =
            shards.last.iter().map(|last| Stamp(last.0.saturating_sub(lag()))).collect();
        let of_shard = |shard: ShardId| passed[usize::from(shard.0)];
        of.forget(of_shard, |site| {
            let of_site = ShardId::all(SHARDS)
                .filter(|shard| site.is_none_or(|site| shards.homes.home(*shard) == site));
            of_site.map(of_shard).min().unwrap_or_default()
        });
        exact.forget(of_shard, |_| Stamp::ZERO);
        knows_no_less(&of, &exact, &shards.homes);
        assert!(
            !all || matches!(
                scheme,
                Scheme::Structural(_) | Scheme::Temporal(_) | Scheme::PerSite(_)
            ) || exact.is_empty()
        );
        assert_eq!(exact.is_empty(), passed == shards.last);
    }
}

#[test]
fn every_encoding_is_read_back_and_no_bytes_panic() {
    for seed in 0..400 {
        let random = &mut Random::new(3_000 + seed);
        let mut shards = Shards::new();
        let mut of = CausalTimestamp::new(SCHEMES[random.index(SCHEMES.len())]);
        for _ in 0..random.index(30) {
            let (shard, stamp) = shards.write(random);
            of.raise(shard, shards.homes.home(shard), Stamp(stamp.0 + 1_800_000_000_000_000));
        }
        let mut bytes = Vec::new();
        of.encode(&mut bytes);
        bytes.push(7);
        assert_eq!(CausalTimestamp::decode(&bytes, SHARDS), Ok((of.clone(), &[7][..])));
        bytes.pop();
        for end in 0..bytes.len() {
            assert!(CausalTimestamp::decode(&bytes[..end], SHARDS).is_err(), "{of:?} at {end}");
        }
        for _ in 0..50 {
            let at = random.index(bytes.len());
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << random.index(8);
            if let Ok((read, [])) = CausalTimestamp::decode(&damaged, SHARDS) {
                let mut again = Vec::new();
                read.encode(&mut again);
                assert!(again.len() <= damaged.len(), "{read:?}");
            }
        }
    }
}

#[test]
fn a_shard_beyond_those_of_the_cluster_is_refused_by_number() {
    let mut of = CausalTimestamp::new(Scheme::PerSite(3));
    of.raise(ShardId(23), SiteId(0), Stamp(5));
    let mut bytes = Vec::new();
    of.encode(&mut bytes);
    let error = CausalTimestamp::decode(&bytes, 20).unwrap_err();
    assert_eq!(error.to_string(), "the timestamp names shard 23, and this cluster has 20 shards");
}
