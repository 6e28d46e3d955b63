use solera_ipa::{Causal, Inconsistent, Quorum};

pub fn main() {
    let (count, reserved) = (Quorum::new(5_i64), Causal::new(1_i64));
    let left: Inconsistent<i64> = count - reserved;
    let again: Inconsistent<i64> = count.map2(reserved, |count, reserved| count - reserved);
    assert_eq!(left.endorse(), again.endorse());
}
