use solera_ipa::Interval;

pub fn main() {
    let left = Interval::new(1, 5).unwrap();
    let more: Interval<i64> = left.checked_add(1).unwrap();
    assert_eq!(more.bounds(), (2, 6));
}
