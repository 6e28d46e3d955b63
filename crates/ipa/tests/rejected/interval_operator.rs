use solera_ipa::Interval;

pub fn main() {
    let left = Interval::new(1, 5).unwrap();
    let more: Interval<i64> = left + 1;
    assert_eq!(more.bounds(), (2, 6));
}
