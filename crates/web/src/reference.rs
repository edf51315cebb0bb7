//! The protocol reference: a page for each API and version, the error codes, and the paste box. `ottla site` writes it
//! to a folder; the broker serves it at `/reference/`.
//!
//! Every link is relative, so the same pages work from a folder, from any web server, and at the broker.

pub(crate) mod decode;
mod frame_view;
mod pages;
pub(crate) mod serve;

use askama::Template;
use ottla_microscope::page::{Page, highest_version};
use ottla_microscope::schemas::Schemas;
use ottla_wire::tables::MessageKind;
use ottla_wire::{ApiInfo, Versions};

/// The style of reference pages, in addition to that of all pages.
pub(crate) const SITE_STYLE: &str = include_str!("../assets/site.css");
/// The script that highlights the bytes of a tree row and the row of a byte.
pub(crate) const SITE_SCRIPT: &str = include_str!("../assets/site.js");

/// The reference of a set of schemas. Its files are rendered one by one.
#[derive(Clone, Debug)]
pub struct Site {
    schemas: Schemas,
    served: fn(ottla_wire::ApiKey) -> Option<Versions>,
    /// Navigation entries before the reference's own: name and path.
    broker: &'static [(&'static str, &'static str)],
}

/// A page cannot be rendered, which is a bug.
pub type RenderError = askama::Error;

/// The layout of a reference page: what `reference.html` shows around the content.
#[derive(Clone, Debug)]
pub(crate) struct ReferenceLayout {
    pub(crate) title: String,
    /// The navigation entry that the page belongs to.
    pub(crate) section: &'static str,
    /// The path from the page to the top of the reference: empty or some `../`.
    pub(crate) root: &'static str,
    /// Whether the page is a single file that contains style and script and has no navigation.
    pub(crate) inline: bool,
    broker: &'static [(&'static str, &'static str)],
}

impl ReferenceLayout {
    fn navigation(&self) -> Vec<NavEntry> {
        let own = [("APIs", "index.html"), ("Error codes", "errors.html")];
        let broker = self.broker.iter().map(|(name, path)| (*name, (*path).to_owned()));
        let all = broker.chain(own.map(|(name, path)| (name, format!("{}{path}", self.root))));
        all.map(|(name, path)| NavEntry { name, path, is_current: name == self.section }).collect()
    }
}

/// A navigation entry.
struct NavEntry {
    name: &'static str,
    path: String,
    /// Whether the page belongs to this entry.
    is_current: bool,
}

impl Site {
    /// The reference of these schemas. `served` gives the versions of an API that the broker serves.
    pub fn new(schemas: Schemas, served: fn(ottla_wire::ApiKey) -> Option<Versions>) -> Site {
        Site { schemas, served, broker: &[] }
    }

    fn layout(&self, title: impl Into<String>, section: &'static str, root: &'static str) -> ReferenceLayout {
        ReferenceLayout { title: title.into(), section, root, inline: false, broker: self.broker }
    }

    /// The paths of all files, relative to the top.
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
    /// The page cannot be rendered, which is a bug.
    pub fn file(&self, name: &str) -> Result<Option<String>, RenderError> {
        match name {
            "index.html" => return self.index().map(Some),
            "errors.html" => return pages::ErrorsPage::new(self).render().map(Some),
            "style.css" => return Ok(Some(crate::layout::STYLE.to_owned())),
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

    /// A page as a single file that contains style and script.
    ///
    /// # Errors
    /// The page cannot be rendered, which is a bug.
    pub fn single_file(&self, page: &Page) -> Result<String, RenderError> {
        pages::ApiPage::new(self, page, true).render()
    }

    fn index(&self) -> Result<String, RenderError> {
        pages::IndexPage::new(self).render()
    }

    /// The messages that are neither requests nor responses.
    fn messages(&self) -> impl Iterator<Item = &'static ottla_wire::tables::MessageTable> {
        let tables = self.schemas.tables().messages().iter().copied();
        tables.filter(|table| !matches!(table.kind, MessageKind::Request | MessageKind::Response))
    }
}

/// The versions that the request or the response of an API has, ascending.
fn versions(api: &ApiInfo) -> Vec<i16> {
    let mut all: Vec<i16> = api.request_versions.iter().chain(api.response_versions.iter()).collect();
    all.sort_unstable();
    all.dedup();
    all
}
