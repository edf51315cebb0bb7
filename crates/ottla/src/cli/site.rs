//! `ottla site`: writes the reference as a folder of pages.

use super::failure::Failure;
use super::out::Out;
use super::schemas::SchemaFiles;
use clap::Args;
use ottla_web::Site;
use std::fs;
use std::path::PathBuf;

/// Write the reference as static pages: every API at every version, error codes, other messages.
///
/// The pages link only to each other and work from a folder or any web server, also without JavaScript. A running
/// broker serves the same pages at its HTTP address.
#[derive(Args)]
pub(crate) struct WriteSite {
    /// The folder; created if it does not exist. Files of the same names are overwritten, others are kept.
    out: PathBuf,
    #[command(flatten)]
    schemas: SchemaFiles,
}

impl WriteSite {
    pub(super) fn run(self, out: &mut Out) -> Result<(), Failure> {
        let site = Site::new(self.schemas.read()?, ottla_broker::served_versions);
        let (mut files, mut bytes) = (0, 0);
        for name in site.files() {
            let content = site.file(&name).map_err(|why| Failure::new(format!("{name}: {why}")))?;
            let Some(content) = content else { continue };
            let path = self.out.join(&name);
            let written =
                path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, &content));
            written.map_err(|why| {
                Failure::new(format!("{} cannot be written: {why}", path.display()))
                    .remedy("Name a folder that can be written to.")
            })?;
            files += 1;
            bytes += content.len();
        }
        Ok(out.line(format!(
            "{files} files, {bytes} bytes; begin at {}",
            self.out.join("index.html").display()
        ))?)
    }
}
