mod none {
    solera_mixt::mixt_file!("none.mixt");
}

fn main() {}
