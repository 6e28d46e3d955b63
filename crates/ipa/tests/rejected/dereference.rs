use solera_ipa::LocalQuorum;

pub fn main() {
    let count = LocalQuorum::new(5);
    let count: i64 = *count;
    assert_eq!(count, 5);
}
