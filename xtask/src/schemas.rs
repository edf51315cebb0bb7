//! The facts of Kafka's messages: imported from Kafka's own files, and checked against them.

use clap::Subcommand;
use ottla_schema::{Field, Glossary, Schema, parse, print};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the schemas lie inside a kafka-clients jar.
const IN_JAR: &str = "common/message/";

/// What to do with the schemas.
#[derive(Subcommand)]
pub(crate) enum Schemas {
    /// Write schemas/*.json: the facts of every message in Kafka's jars or folders of schema files.
    Import {
        /// Jars of Apache Kafka (clients, and the coordinators for the records they keep), or folders of schema files.
        #[arg(required = true)]
        from: Vec<PathBuf>,
    },
    /// Prove that no fact differs from those of the jars or folders, and that every field and message has a meaning.
    Check {
        /// Jars of Apache Kafka (clients, and the coordinators for the records they keep), or folders of schema files.
        #[arg(required = true)]
        from: Vec<PathBuf>,
    },
    /// Have Apache Kafka's own classes read and write again every golden frame and sample of the wire tests (Java 17).
    Judge {
        /// A kafka-clients jar.
        jar: PathBuf,
    },
    /// Have Apache Kafka's own classes make the vectors of the wire tests, frames and their JSON, and compare (Java 17;
    /// the classes come from Maven).
    Vectors {
        /// Keep what they make, instead of comparing.
        #[arg(long)]
        record: bool,
        /// Where the pseudo-random numbers start. The committed vectors have 0.
        #[arg(long, default_value_t = 0)]
        seed: i64,
    },
}

/// Runs one of them.
pub(crate) fn run(what: &Schemas) -> Result<(), String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../schemas");
    match what {
        Schemas::Import { from } => import(from, &here),
        Schemas::Check { from } => check(from, &here),
        Schemas::Judge { jar } => judge(jar),
        Schemas::Vectors { record, seed } => vectors(*record, *seed),
    }
}

fn import(from: &[PathBuf], here: &Path) -> Result<(), String> {
    let theirs = load_all(from)?;
    fs::create_dir_all(here).map_err(|why| format!("{}: {why}", here.display()))?;
    let mut gone = load(here).unwrap_or_default();
    for (file, schema) in &theirs {
        gone.remove(file);
        let path = here.join(file);
        fs::write(&path, print(schema)).map_err(|why| format!("{}: {why}", path.display()))?;
    }
    for file in gone.keys() {
        let path = here.join(file);
        fs::remove_file(&path).map_err(|why| format!("{}: {why}", path.display()))?;
    }
    println!("{} schemas written, {} removed", theirs.len(), gone.len());
    Ok(())
}

fn judge(jar: &Path) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let golden = root.join("../crates/wire/tests/golden");
    let status = Command::new("java")
        .arg("-cp")
        .arg(jar)
        .arg(root.join("judge/Judge.java"))
        .args([golden.join("smallest_frames.tsv"), golden.join("samples.tsv")])
        .status()
        .map_err(|why| format!("java: {why}"))?;
    if status.success() { Ok(()) } else { Err("Apache Kafka's classes do not agree".to_owned()) }
}

fn vectors(record: bool, seed: i64) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let kept = root.join("../crates/wire/tests/golden/vectors.tsv");
    let made = root.join("../target/vectors.tsv");
    let status = Command::new("java")
        .arg("-cp")
        .arg(crate::kafka::fetch()?.join("*"))
        .arg(root.join("judge/Vectors.java"))
        .arg(&made)
        .arg(seed.to_string())
        .status()
        .map_err(|why| format!("java: {why}"))?;
    if !status.success() {
        return Err("Apache Kafka's classes made no vectors".to_owned());
    }
    let read = |path: &Path| fs::read_to_string(path).map_err(|why| format!("{}: {why}", path.display()));
    let text = read(&made)?;
    let rows = text.lines().skip(1).count();
    if record {
        fs::write(&kept, text).map_err(|why| format!("{}: {why}", kept.display()))?;
        println!("{rows} vectors written");
    } else if text == read(&kept)? {
        println!("{rows} vectors are what Apache Kafka's classes make");
    } else {
        return Err(format!("{} is not what {} is now", kept.display(), made.display()));
    }
    Ok(())
}

fn check(from: &[PathBuf], here: &Path) -> Result<(), String> {
    let theirs = load_all(from)?;
    let ours = load(here)?;
    let mut problems = Vec::new();
    for file in theirs.keys().chain(ours.keys()).collect::<BTreeSet<_>>() {
        match (theirs.get(file), ours.get(file)) {
            (Some(_), None) => problems.push(format!("schemas/{file} is missing")),
            (None, Some(_)) => problems.push(format!("schemas/{file} is not among Kafka's")),
            (Some(theirs), Some(ours)) if theirs != ours => problems.push(difference(file, theirs, ours)),
            _ => {}
        }
    }
    let facts = problems.len();
    let meanings = meanings(here, &ours, &mut problems)?;
    if problems.is_empty() {
        println!("{} schemas agree in every fact; {meanings} fields and messages have a meaning", ours.len());
        return Ok(());
    }
    let rest = problems.len() - facts;
    Err(format!("{}\n{facts} schemas differ; the glossary has {rest} faults", problems.join("\n")))
}

fn difference(file: &str, theirs: &Schema, ours: &Schema) -> String {
    let (theirs, ours) = (print(theirs), print(ours));
    let place = theirs.lines().zip(ours.lines()).find(|(a, b)| a != b);
    let (theirs, ours) = place.unwrap_or(("(length)", "(length)"));
    format!("schemas/{file} differs:\n  Kafka: {}\n  here:  {}", theirs.trim(), ours.trim())
}

/// Looks for fields and messages without a meaning, and for entries that mean nothing. Counts what has one.
fn meanings(
    here: &Path,
    schemas: &BTreeMap<String, Schema>,
    problems: &mut Vec<String>,
) -> Result<usize, String> {
    let text =
        fs::read_to_string(here.join("about.toml")).map_err(|why| format!("schemas/about.toml: {why}"))?;
    let glossary = Glossary::parse(&text).map_err(|why| format!("schemas/about.toml: {why}"))?;
    let mut known = BTreeSet::new();
    let mut found = 0;
    for schema in schemas.values() {
        let mut names = BTreeSet::new();
        gather(&schema.fields, &mut names);
        schema.common_structs.iter().for_each(|spec| gather(&spec.fields, &mut names));
        if glossary.message(&schema.name).is_none() {
            problems.push(format!("schemas/about.toml: [messages.{}] has no 'about'", schema.name));
        }
        for name in &names {
            match glossary.field(&schema.name, name) {
                Some(_) => found += 1,
                None => {
                    problems.push(format!("schemas/about.toml: no meaning for {name} of {}", schema.name))
                }
            }
        }
        known.insert((schema.name.clone(), "about".to_owned()));
        known.extend(names.into_iter().map(|name| (schema.name.clone(), name.to_owned())));
    }
    for (message, field) in glossary.overrides() {
        if !known.contains(&(message.to_owned(), field.to_owned())) {
            problems.push(format!("schemas/about.toml: {message} has no {field}"));
        }
    }
    for (message, field) in glossary.secrets() {
        if !known.contains(&(message.to_owned(), field.to_owned())) {
            problems.push(format!("schemas/about.toml: [secrets]: {message} has no {field}"));
        }
    }
    for name in glossary.field_names() {
        if !known.iter().any(|(_, field)| field == name) {
            problems.push(format!("schemas/about.toml: no message has a field {name}"));
        }
    }
    Ok(found + schemas.len())
}

fn gather<'a>(fields: &'a [Field], names: &mut BTreeSet<&'a str>) {
    for field in fields {
        names.insert(&field.name);
        gather(&field.fields, names);
    }
}

/// Reads every schema in a folder or jar; what Kafka says about fields is left behind.
fn load_all(from: &[PathBuf]) -> Result<BTreeMap<String, Schema>, String> {
    let mut schemas = BTreeMap::new();
    for from in from {
        schemas.extend(load(from)?);
    }
    Ok(schemas)
}

fn load(from: &Path) -> Result<BTreeMap<String, Schema>, String> {
    let texts = if from.is_dir() { read_folder(from) } else { read_jar(from) };
    let texts = texts.map_err(|why| format!("{}: {why}", from.display()))?;
    if texts.is_empty() {
        return Err(format!("{}: no schema files there", from.display()));
    }
    let mut schemas = BTreeMap::new();
    for (file, text) in texts {
        let mut schema = parse(&text).map_err(|why| format!("{file}: {why}"))?;
        forget_about(&mut schema.fields);
        schema.common_structs.iter_mut().for_each(|spec| forget_about(&mut spec.fields));
        schemas.insert(file, schema);
    }
    Ok(schemas)
}

fn forget_about(fields: &mut [Field]) {
    for field in fields {
        field.about = None;
        forget_about(&mut field.fields);
    }
}

fn read_folder(folder: &Path) -> Result<BTreeMap<String, String>, Box<dyn std::error::Error>> {
    let mut texts = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "json")
            && let Some(name) = path.file_name()
        {
            texts.insert(name.to_string_lossy().into_owned(), fs::read_to_string(&path)?);
        }
    }
    Ok(texts)
}

fn read_jar(jar: &Path) -> Result<BTreeMap<String, String>, Box<dyn std::error::Error>> {
    let mut archive = zip::ZipArchive::new(File::open(jar)?)?;
    let mut texts = BTreeMap::new();
    for place in 0..archive.len() {
        let mut entry = archive.by_index(place)?;
        let Some(file) = entry.name()?.strip_prefix(IN_JAR).map(str::to_owned) else { continue };
        if file.ends_with(".json") {
            let mut text = String::new();
            entry.read_to_string(&mut text)?;
            texts.insert(file, text);
        }
    }
    Ok(texts)
}
