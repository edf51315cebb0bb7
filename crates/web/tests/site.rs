//! The reference as a whole: every page is written, and no link leads nowhere.

use ottla_microscope::page::Page;
use ottla_microscope::schemas::Schemas;
use ottla_web::Site;
use ottla_wire::tables::TableSet;
use std::collections::{BTreeMap, BTreeSet};

fn site() -> Site {
    Site::new(Schemas::built_in(), ottla_broker::served_versions)
}

/// The values of an attribute.
fn values<'a>(html: &'a str, attribute: &str) -> Vec<&'a str> {
    let start = format!(" {attribute}=\"");
    html.split(&start).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// Where a link from a page leads, as a name from the top.
fn resolved(page: &str, link: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            ".." => assert!(parts.pop().is_some(), "{page} links above the top: {link}"),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[test]
fn every_page_is_written_and_every_link_leads_somewhere() {
    let site = site();
    let files: BTreeMap<String, String> =
        site.files().into_iter().map(|name| (name.clone(), site.file(&name).unwrap().unwrap())).collect();
    let ids: BTreeMap<&str, BTreeSet<&str>> =
        files.iter().map(|(name, html)| (name.as_str(), values(html, "id").into_iter().collect())).collect();
    for (name, html) in files.iter().filter(|(name, _)| name.ends_with(".html")) {
        assert_eq!(ids[name.as_str()].len(), values(html, "id").len(), "an id twice in {name}");
        for link in values(html, "href").into_iter().chain(values(html, "src")) {
            if link == "data:," {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { name.clone() } else { resolved(name, path) };
            assert!(files.contains_key(&target), "{name} links to {link}, which is not there");
            let known = anchor.is_empty() || ids[target.as_str()].contains(anchor);
            assert!(known, "{name} links to {link}, which has no such place");
        }
    }
    let pages: usize =
        TableSet::built_in().apis().iter().map(|api| api.request_versions.iter().count()).sum();
    assert!(files.len() > pages, "{} files, {pages} versions", files.len());
}

#[test]
fn a_page_shows_both_frames_to_the_last_byte() {
    let html = site().file("apis/TxnOffsetCommit/v5.html").unwrap().unwrap();
    for text in
        ["56 bytes on the wire", "id=\"requestb55\"", "id=\"responseb24\"", "[0x0024, 18B]", "validVersions"]
    {
        assert!(html.contains(text), "{text}");
    }
    assert!(!html.contains("id=\"requestb56\""));
}

#[test]
fn a_page_that_stands_alone_links_to_nothing() {
    let api = TableSet::built_in().api_named("Metadata").unwrap();
    let page = Page::new(&Schemas::built_in(), api, 12).unwrap();
    let html = site().single_file(&page).unwrap();
    let outside = |link: &&str| !link.starts_with('#') && *link != "data:,";
    assert_eq!(values(&html, "href").into_iter().filter(outside).collect::<Vec<_>>(), [""; 0]);
    assert_eq!(values(&html, "src"), [""; 0]);
}

#[test]
fn a_name_that_is_no_file_is_none() {
    for name in [
        "",
        "apis/Nothing/v1.html",
        "apis/Fetch/v99.html",
        "../x.html",
        "apis/Fetch/vx.html",
        "messages/Fetch.html",
    ] {
        assert!(site().file(name).unwrap().is_none(), "{name}");
    }
}
