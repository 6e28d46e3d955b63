use solera_ipa::Causal;

fn main() {
    let name = Causal::new("Ann".to_owned());
    let name: String = name.into_inner();
    assert_eq!(name, "Ann");
}
