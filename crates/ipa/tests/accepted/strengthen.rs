use solera_ipa::{LocalQuorum, Quorum};

pub fn main() {
    let (local, quorum) = (LocalQuorum::new(5), Quorum::new(5));
    let count: Quorum<i64> = quorum.weaken();
    assert_eq!(count.endorse(), 5.into());
    assert_eq!(local.endorse(), quorum.endorse());
}
