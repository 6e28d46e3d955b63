use solera_ipa::{Answer, Interval};

pub fn main() {
    let left = Interval::new(1, 5).unwrap();
    assert!(matches!(left.at_least(1), Answer::Yes));
    let _: Answer = left.less_than(5);
}
