//! What all pages have in common: title, navigation, style, the script that refreshes.

use crate::asked::Refusal;
use askama::Template;

/// The frame of a page: what `layout.html` shows around the content.
#[derive(Clone, Debug)]
pub(crate) struct Shell {
    /// Title of the page, and its heading.
    pub(crate) title: String,
    /// The entry of the navigation that the page belongs to.
    pub(crate) here: &'static str,
    /// Where its JSON is.
    pub(crate) json: Option<String>,
    /// Offers to refresh it.
    pub(crate) refresh: bool,
    /// The cluster id; empty if the page says nothing of a running broker.
    pub(crate) cluster: String,
    /// The broker's number.
    pub(crate) node: i32,
}

/// An entry of the navigation.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) path: &'static str,
}

/// The navigation, in order.
const ENTRIES: &[Entry] = &[
    Entry { name: "Overview", path: "/" },
    Entry { name: "Topics", path: "/topics" },
    Entry { name: "Groups", path: "/groups" },
    Entry { name: "Transactions", path: "/transactions" },
    Entry { name: "Frames", path: "/frames" },
    Entry { name: "APIs", path: "/reference/" },
    Entry { name: "Decode", path: "/decode" },
];

impl Shell {
    /// A page without JSON, refreshing or anything about a running broker.
    pub(crate) fn bare(title: impl Into<String>) -> Shell {
        Shell { title: title.into(), here: "", json: None, refresh: false, cluster: String::new(), node: 0 }
    }

    /// The navigation.
    pub(crate) fn entries(&self) -> &'static [Entry] {
        ENTRIES
    }

    /// The version of this program.
    pub(crate) fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}

/// A page that says why there is none.
#[derive(Template)]
#[template(path = "refused.html")]
pub(crate) struct RefusedPage<'a> {
    pub(crate) shell: Shell,
    pub(crate) refusal: &'a Refusal,
}

/// The style of all pages.
pub(crate) const STYLE: &str = include_str!("../assets/style.css");
/// The script of pages that refresh.
pub(crate) const SCRIPT: &str = include_str!("../assets/refresh.js");
