use solera_ipa::{Answer, Interval};

pub fn main() {
    let (one, other) = (Interval::exact(1), Interval::exact(1));
    assert!(one == other);
    let _: Answer = one.less_than(other);
}
