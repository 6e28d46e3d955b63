use solera_ipa::Causal;

pub fn main() {
    let name = Causal::new("Ann".to_owned());
    let name: String = name.into_inner();
    assert_eq!(name, "Ann");
}
