//! Generates the messages from `schemas/`.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a build script reads files and talks to cargo"
)]

use ottla_schema::{Glossary, Message, generate, parse};
use std::path::{Path, PathBuf};
use std::{env, fs};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let schemas = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../schemas");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo::rerun-if-changed={}", schemas.display());
    let glossary = match fs::read_to_string(schemas.join("about.toml")) {
        Ok(text) => Glossary::parse(&text).map_err(|why| format!("schemas/about.toml: {why}"))?,
        Err(_) => Glossary::default(),
    };
    let mut paths: Vec<PathBuf> =
        fs::read_dir(&schemas)?.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
    paths.sort();
    let mut messages = Vec::new();
    for path in paths {
        let schema =
            parse(&fs::read_to_string(&path)?).map_err(|why| format!("{}: {why}", path.display()))?;
        messages.push(Message::resolve(&schema));
    }
    let generated = generate::generate(&messages, &glossary);
    fs::write(out.join("messages.rs"), generated.messages)?;
    fs::write(out.join("dispatch.rs"), generated.dispatch)?;
    Ok(())
}
