//! Packs the texts of `schemas/`, for pages that show them: a tenth of their size in the binary. And writes the `match`
//! over message names with which the tests reach the typed codec.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    clippy::disallowed_types,
    reason = "a build script reads files and talks to cargo"
)]

use flate2::Compression;
use flate2::write::DeflateEncoder;
use ottla_schema::{Glossary, Message, generate, parse};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let schemas = Path::new(&std::env::var("CARGO_MANIFEST_DIR")?).join("../../schemas");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    println!("cargo::rerun-if-changed={}", schemas.display());
    let mut paths: Vec<PathBuf> =
        fs::read_dir(&schemas)?.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
    paths.sort();
    let mut packed = DeflateEncoder::new(File::create(out.join("schemas.deflate"))?, Compression::best());
    // Each text ends with a zero byte.
    let mut messages = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path)?;
        let schema = parse(&text).map_err(|why| format!("{}: {why}", path.display()))?;
        messages.push(Message::resolve(&schema));
        packed.write_all(text.as_bytes())?;
        packed.write_all(&[0])?;
    }
    packed.finish()?;
    let dispatch = generate::generate(&messages, &Glossary::default()).dispatch;
    fs::write(out.join("dispatch.rs"), dispatch)?;
    Ok(())
}
