//! What all pages have in common: title, navigation, style, and the script that refreshes.

/// The layout of a page: what `layout.html` shows around the content.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// Title of the page, and its heading.
    pub(crate) title: String,
    /// The navigation entry that the page belongs to.
    pub(crate) section: &'static str,
    /// The address of the page's JSON.
    pub(crate) json: Option<String>,
    /// Whether the page offers to refresh itself.
    pub(crate) refresh: bool,
    /// The cluster id; empty if the page shows nothing of a running broker.
    pub(crate) cluster: String,
    /// The broker's node id.
    pub(crate) node: i32,
}

/// A navigation entry.
pub(crate) struct NavEntry {
    pub(crate) name: &'static str,
    pub(crate) path: &'static str,
}

const NAVIGATION: &[NavEntry] = &[
    NavEntry { name: "Overview", path: "/" },
    NavEntry { name: "Topics", path: "/topics" },
    NavEntry { name: "Groups", path: "/groups" },
    NavEntry { name: "Transactions", path: "/transactions" },
    NavEntry { name: "Frames", path: "/frames" },
    NavEntry { name: "APIs", path: "/reference/" },
    NavEntry { name: "Decode", path: "/decode" },
];

impl Layout {
    /// A page without JSON, without refreshing, and without anything about a running broker.
    pub(crate) fn bare(title: impl Into<String>) -> Layout {
        Layout {
            title: title.into(),
            section: "",
            json: None,
            refresh: false,
            cluster: String::new(),
            node: 0,
        }
    }

    pub(crate) fn navigation(&self) -> &'static [NavEntry] {
        NAVIGATION
    }

    /// The version of this program.
    pub(crate) fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}

/// The style of all pages.
pub(crate) const STYLE: &str = include_str!("../assets/style.css");
/// The script of pages that refresh themselves.
pub(crate) const SCRIPT: &str = include_str!("../assets/refresh.js");
