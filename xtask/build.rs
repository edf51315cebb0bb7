//! Generates the list that leads from a message's name to its typed codec, for chores that send every frame through it.

use ottla_schema::{Glossary, Message, generate, parse};
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let schemas = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../schemas");
    println!("cargo::rerun-if-changed={}", schemas.display());
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
    let generated = generate::generate(&messages, &Glossary::default());
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("dispatch.rs"), generated.dispatch)?;
    Ok(())
}
