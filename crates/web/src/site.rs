//! The reference: a page for each API and version, and what goes with them. Written to a folder, or served as it is.
//!
//! Every link is relative, so the same pages work from a folder, from any web server, and at `/reference/` of the broker.

pub(crate) mod decode;
mod pages;
pub(crate) mod serve;
pub(crate) mod view;

use askama::Template;
use ottla_microscope::page::{Page, highest_version};
use ottla_microscope::schemas::Schemas;
use ottla_wire::tables::MessageKind;
use ottla_wire::{ApiInfo, Versions};

/// The style that reference pages have beside that of all pages.
pub(crate) const SITE_STYLE: &str = include_str!("../assets/site.css");
/// The script that links bytes and tree.
pub(crate) const SITE_SCRIPT: &str = include_str!("../assets/site.js");

/// The reference, ready to be written.
#[derive(Clone, Debug)]
pub struct Site {
    schemas: Schemas,
    served: fn(ottla_wire::ApiKey) -> Option<Versions>,
    /// Entries of the navigation in front of the reference's own: name and path.
    broker: &'static [(&'static str, &'static str)],
}

/// A page that cannot be written, which is a bug.
pub type Failed = askama::Error;

/// What all pages of the reference have in common.
#[derive(Clone, Debug)]
pub(crate) struct Sheet {
    pub(crate) title: String,
    /// The entry of the navigation that it belongs to.
    pub(crate) here: &'static str,
    /// From the page to the top of the reference: empty or some `../`.
    pub(crate) root: &'static str,
    /// Whether it stands alone, with style and script in it and nothing around it.
    pub(crate) inline: bool,
    broker: &'static [(&'static str, &'static str)],
}

impl Sheet {
    /// The navigation.
    fn entries(&self) -> Vec<Entry> {
        let own = [("APIs", "index.html"), ("Error codes", "errors.html")];
        let broker = self.broker.iter().map(|(name, path)| (*name, (*path).to_owned()));
        let all = broker.chain(own.map(|(name, path)| (name, format!("{}{path}", self.root))));
        all.map(|(name, path)| Entry { name, path, here: name == self.here }).collect()
    }
}

/// An entry of the navigation.
struct Entry {
    name: &'static str,
    path: String,
    /// Whether the page belongs to it.
    here: bool,
}

impl Site {
    /// The reference of these schemas. `served` says which versions the broker serves.
    pub fn new(schemas: Schemas, served: fn(ottla_wire::ApiKey) -> Option<Versions>) -> Site {
        Site { schemas, served, broker: &[] }
    }

    fn sheet(&self, title: impl Into<String>, here: &'static str, root: &'static str) -> Sheet {
        Sheet { title: title.into(), here, root, inline: false, broker: self.broker }
    }

    /// The names of all files, relative to the top.
    pub fn files(&self) -> Vec<String> {
        let fixed = ["index.html", "errors.html", "style.css", "site.css", "site.js"].map(str::to_owned);
        let apis =
            self.schemas.tables().apis().iter().filter(|api| !versions(api).is_empty()).flat_map(|api| {
                let pages = versions(api)
                    .into_iter()
                    .map(move |version| format!("apis/{}/v{version}.html", api.name));
                std::iter::once(format!("apis/{}/index.html", api.name)).chain(pages)
            });
        let messages = self.messages().map(|table| format!("messages/{}.html", table.name));
        fixed.into_iter().chain(apis).chain(messages).collect()
    }

    /// The content of one of [`Site::files`]; `None` for any other name.
    ///
    /// # Errors
    /// The page cannot be written, which is a bug.
    pub fn file(&self, name: &str) -> Result<Option<String>, Failed> {
        match name {
            "index.html" => return self.index().map(Some),
            "errors.html" => return pages::Errors::new(self).render().map(Some),
            "style.css" => return Ok(Some(crate::shell::STYLE.to_owned())),
            "site.css" => return Ok(Some(SITE_STYLE.to_owned())),
            "site.js" => return Ok(Some(SITE_SCRIPT.to_owned())),
            _ => {}
        }
        let Some(name) = name.strip_suffix(".html") else { return Ok(None) };
        if let Some(name) = name.strip_prefix("messages/") {
            let table = self.messages().find(|table| table.name == name);
            return table.map(|table| pages::MessagePage::new(self, table).render()).transpose();
        }
        let Some((api, version)) = name.strip_prefix("apis/").and_then(|name| name.split_once('/')) else {
            return Ok(None);
        };
        let Some(api) = self.schemas.tables().api_named(api) else { return Ok(None) };
        let version = match version {
            "index" => highest_version(api, None),
            version => version.strip_prefix('v').and_then(|version| version.parse().ok()),
        };
        let page = version.and_then(|version| Page::new(&self.schemas, api, version));
        page.map(|page| pages::ApiPage::new(self, &page, false).render()).transpose()
    }

    /// A page that stands alone in one file.
    ///
    /// # Errors
    /// The page cannot be written, which is a bug.
    pub fn alone(&self, page: &Page) -> Result<String, Failed> {
        pages::ApiPage::new(self, page, true).render()
    }

    fn index(&self) -> Result<String, Failed> {
        pages::Index::new(self).render()
    }

    /// The messages that are neither requests nor responses.
    fn messages(&self) -> impl Iterator<Item = &'static ottla_wire::tables::MessageTable> {
        let tables = self.schemas.tables().messages().iter().copied();
        tables.filter(|table| !matches!(table.kind, MessageKind::Request | MessageKind::Response))
    }
}

/// Every version that a request or response of the API has.
fn versions(api: &ApiInfo) -> Vec<i16> {
    let mut all: Vec<i16> = api.request_versions.iter().chain(api.response_versions.iter()).collect();
    all.sort_unstable();
    all.dedup();
    all
}
