use solera_ipa::Causal;

pub fn main() {
    let (one, other) = (Causal::new(1), Causal::new(2));
    assert!(one != other);
}
