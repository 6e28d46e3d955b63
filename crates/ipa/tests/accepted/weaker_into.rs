use solera_ipa::{Consistent, LocalQuorum, Quorum};

fn fresh(count: impl Into<Quorum<i64>>) -> LocalQuorum<i64> {
    count.into().weaken()
}

pub fn main() {
    let local = fresh(Consistent::new(5));
    let again: LocalQuorum<i64> = fresh(local.endorse());
    assert_eq!(again.endorse(), 5.into());
}
