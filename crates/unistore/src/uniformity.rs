//! Computation of `uniformVec` (§5.4, second stage).

use solera_membership::Members;
use solera_time::{SiteId, Timestamp, Vector};

/// Computes `uniformVec` from `stableMatrix` (Alg. 2 l. 33–36): entry `j` is the greatest timestamp
/// such that `f + 1` sites, `me` among them, store all of `j`'s transactions up to it.
///
/// The paper takes, over all groups of `f + 1` sites that include `me`, the maximum of the groups'
/// minima. The best group consists of `me` and the `f` others that store most, so sorting the
/// others gives the same entry without enumerating groups. Only members count; if there are fewer
/// than `f + 1`, all of them must store the transactions.
pub(crate) fn uniform_vec(
    stable_matrix: &[Vector],
    me: SiteId,
    f: usize,
    members: &Members,
) -> Vector {
    let sites = stable_matrix.len();
    let f = f.min(members.members().count().saturating_sub(1));
    let mut uniform = Vector::zero(sites);
    for origin in SiteId::all(sites) {
        let mut others: Vec<Timestamp> = members
            .members()
            .filter(|site| *site != me)
            .map(|site| stable_matrix[site.index()][origin])
            .collect();
        others.sort_unstable_by(|a, b| b.cmp(a));
        let mine = stable_matrix[me.index()][origin];
        uniform[origin] = match f {
            0 => mine,
            _ => mine.min(others[f - 1]),
        };
    }
    uniform
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(rows: &[&[u64]]) -> Vec<Vector> {
        rows.iter()
            .map(|row| {
                let mut vector = Vector::zero(row.len());
                for (i, value) in row.iter().enumerate() {
                    vector[SiteId(i as u8)] = Timestamp(*value);
                }
                vector
            })
            .collect()
    }

    /// UniStore Alg. 2 l. 33–35, literally.
    fn by_enumeration(stable_matrix: &[Vector], me: SiteId, f: usize) -> Vector {
        let sites = stable_matrix.len();
        let mut uniform = Vector::zero(sites);
        let groups = (0u32..1 << sites)
            .filter(|group| group.count_ones() as usize == f + 1 && group & (1 << me.0) != 0);
        for group in groups {
            for j in SiteId::all(sites) {
                let members = SiteId::all(sites).filter(|h| group & (1 << h.0) != 0);
                let least = members.map(|h| stable_matrix[h.index()][j]).min();
                uniform.raise(j, least.expect("a group has a member"));
            }
        }
        uniform
    }

    #[test]
    fn a_majority_that_includes_me_decides() {
        let rows = matrix(&[&[9, 2, 3], &[5, 8, 1], &[7, 4, 6]]);
        assert_eq!(
            uniform_vec(&rows, SiteId(0), 1, &Members::new(rows.len())),
            matrix(&[&[7, 2, 3]])[0]
        );
        assert_eq!(
            uniform_vec(&rows, SiteId(0), 0, &Members::new(rows.len())),
            matrix(&[&[9, 2, 3]])[0]
        );
        assert_eq!(
            uniform_vec(&rows, SiteId(0), 2, &Members::new(rows.len())),
            matrix(&[&[5, 2, 1]])[0]
        );
    }

    #[test]
    fn alg_2_l_33_to_36_as_the_paper_enumerates() {
        let mut random = solera_random::Random::new(7);
        for sites in 1..=5usize {
            for _ in 0..50 {
                let rows: Vec<Vec<u64>> =
                    (0..sites).map(|_| (0..sites).map(|_| random.below(16)).collect()).collect();
                let rows = matrix(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>());
                for f in 0..sites {
                    for me in SiteId::all(sites) {
                        let expected = by_enumeration(&rows, me, f);
                        assert_eq!(uniform_vec(&rows, me, f, &Members::new(rows.len())), expected);
                    }
                }
            }
        }
    }
}
