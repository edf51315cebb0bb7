//! `--schemas`: files, folders and jars with the schemas of another Kafka version.

use super::failure::Failure;
use clap::Args;
use ottla_microscope::names::{self, Subject};
use ottla_microscope::schemas::Schemas;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The folder of the schemas in a kafka-clients jar.
const IN_JAR: &str = "common/message/";

/// The schemas to use.
#[derive(Args)]
pub(super) struct SchemaFiles {
    /// Schemas that replace built-in ones: a file, a folder of .json files, or a kafka-clients jar; may be repeated.
    /// Other messages keep their built-in schemas.
    #[arg(long, value_name = "FILE|FOLDER|JAR")]
    schemas: Vec<PathBuf>,
}

type Texts = Vec<(String, String)>;

impl SchemaFiles {
    pub(super) fn read(&self) -> Result<Schemas, Failure> {
        let mut texts = Texts::new();
        for path in &self.schemas {
            let before = texts.len();
            gather(path, &mut texts).map_err(|error| {
                Failure::new(format!("cannot read schemas from {}: {error}", path.display()))
            })?;
            if texts.len() == before {
                return Err(Failure::new(format!("{} has no schemas", path.display()))
                    .remedy("Name a file, a folder of .json files, or a kafka-clients jar."));
            }
        }
        Schemas::read(&texts).map_err(|error| Failure::new(error.to_string()))
    }
}

fn gather(path: &Path, texts: &mut Texts) -> io::Result<()> {
    if path.is_dir() {
        let mut files: Vec<PathBuf> =
            fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
        files.retain(|file| ends_with(file, "json"));
        files.sort();
        return files.iter().try_for_each(|file| add(file, texts));
    }
    if ends_with(path, "jar") || ends_with(path, "zip") { add_jar(path, texts) } else { add(path, texts) }
}

fn ends_with(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|found| found.eq_ignore_ascii_case(ending))
}

fn add(path: &Path, texts: &mut Texts) -> io::Result<()> {
    texts.push((path.display().to_string(), fs::read_to_string(path)?));
    Ok(())
}

fn add_jar(jar: &Path, texts: &mut Texts) -> io::Result<()> {
    let mut archive = zip::ZipArchive::new(File::open(jar)?)?;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index)?;
        let name = entry.name()?.into_owned();
        if name.starts_with(IN_JAR) && name.ends_with(".json") {
            let mut text = String::new();
            entry.read_to_string(&mut text)?;
            texts.push((format!("{}!{name}", jar.display()), text));
        }
    }
    Ok(())
}

/// Finds an API or message by name; the failure suggests similar names.
pub(super) fn find(schemas: &Schemas, name: &str) -> Result<Subject, Failure> {
    names::find(schemas.tables(), name).map_err(|unknown| {
        let failure = Failure::new(format!("there is no API or message {:?}", unknown.name));
        match unknown.near.as_slice() {
            [] => failure.remedy("`ottla apis` lists all."),
            near => failure.remedy(format!("Did you mean {}?", near.join(", "))),
        }
    })
}
