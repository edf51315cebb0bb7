//! Writes the `match` over message names with which the targets reach the typed codec.

use ottla_schema::{Glossary, Message, generate, parse};
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let schemas = Path::new(env!("CARGO_MANIFEST_DIR")).join("../schemas");
    println!("cargo::rerun-if-changed={}", schemas.display());
    let mut paths: Vec<PathBuf> =
        fs::read_dir(&schemas).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
    paths.sort();
    let messages: Vec<Message> = paths
        .iter()
        .map(|path| Message::resolve(&parse(&fs::read_to_string(path).unwrap()).unwrap()))
        .collect();
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    fs::write(out.join("dispatch.rs"), generate::generate(&messages, &Glossary::default()).dispatch).unwrap();
}
