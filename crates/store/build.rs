//! Builds the store again when a migration is added: the compiled-in list of migrations is read
//! from the folder.

fn main() {
    println!("cargo:rerun-if-changed=../../migrations");
}
