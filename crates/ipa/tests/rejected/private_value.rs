use solera_ipa::Por;

pub fn main() {
    let count = Por::new(5);
    assert_eq!(count.value, 5);
}
