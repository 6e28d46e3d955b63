use solera_ipa::{Answer, Interval};

pub fn main() {
    let left = Interval::new(1, 5).unwrap();
    assert!(left >= 1);
    let _: Answer = left.less_than(5);
}
